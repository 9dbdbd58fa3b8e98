//! Each test works in a fresh network namespace of its own; they need root.

use super::*;
use crate::Namespace;
use crate::netns::test_host;

fn v4(text: &str) -> Cidr {
    text.parse().unwrap()
}

#[test]
fn cidr_text_round_trip_and_refusals() {
    for text in ["10.0.0.1/24", "0.0.0.0/0", "fd00::1/64", "::/0"] {
        assert_eq!(v4(text).to_string(), text);
    }
    for text in ["10.0.0.1", "10.0.0.1/33", "fd00::/129", "x/8", "10.0.0.1/-1"] {
        assert!(text.parse::<Cidr>().unwrap_err().to_string().contains(text));
    }
}

#[test]
fn veth_between_namespaces_with_addresses_and_routes() {
    let (a, b) = (test_host("veth-a"), test_host("veth-b"));
    let netlink = a.netlink().unwrap();
    netlink
        .create_veth(VethEnd { name: "va", namespace: None }, VethEnd { name: "vb", namespace: Some(&b) })
        .unwrap();
    let link = netlink.link("va").unwrap();
    assert_eq!((link.kind.as_deref(), link.is_up), (Some("veth"), false));
    netlink.set_up(link.index).unwrap();
    netlink
        .change_link(
            link.index,
            &LinkChange { mtu: Some(1_400), queue_len_packets: Some(77), ..LinkChange::default() },
        )
        .unwrap();
    let link = netlink.link_by_index(link.index).unwrap();
    assert_eq!((link.is_up, link.mtu, link.queue_len_packets), (true, 1_400, 77));

    let there = b.netlink().unwrap();
    there.set_up(there.index_of("vb").unwrap()).unwrap();
    for address in ["10.9.0.1/24", "fd09::1/64"] {
        netlink.add_address(link.index, v4(address)).unwrap();
        assert!(netlink.addresses(link.index).unwrap().contains(&v4(address)));
        let again = netlink.add_address(link.index, v4(address)).unwrap_err();
        assert!(again.is_already_there(), "{again}");
    }
    let route = Route::via(v4("10.77.0.0/16"), "10.9.0.2".parse().unwrap());
    netlink.add_route(&route).unwrap();
    let listed = netlink.routes(Family::V4, Table::MAIN).unwrap();
    assert!(listed.iter().any(|r| r.destination == route.destination && r.gateway == route.gateway));
    netlink.delete_route(&route).unwrap();
    assert!(netlink.delete_route(&route).unwrap_err().is_not_there());

    for family in Family::BOTH {
        let route = Route::default_via_device(family, link.index, Table(70_001));
        netlink.add_route(&route).unwrap();
        assert_eq!(netlink.routes(family, Table(70_001)).unwrap(), [route]);
        assert!(netlink.tables_in_use(family).unwrap().contains(&Table(70_001)));
        netlink.delete_route(&route).unwrap();
        assert!(netlink.routes(family, Table(70_001)).unwrap().is_empty());
    }
    netlink.delete_address(link.index, v4("10.9.0.1/24")).unwrap();
    netlink.delete_link(link.index).unwrap();
    assert!(matches!(there.link("vb"), Err(IoError::NoInterface { .. })), "the other end goes too");
}

#[test]
fn a_link_keeps_the_queueing_discipline_that_it_is_given_before_it_comes_up() {
    let namespace = test_host("discipline");
    let netlink = namespace.netlink().unwrap();
    netlink
        .create_veth(VethEnd { name: "given", namespace: None }, VethEnd { name: "other", namespace: None })
        .unwrap();
    let (given, other) = (netlink.index_of("given").unwrap(), netlink.index_of("other").unwrap());
    netlink.set_root_discipline(given, "pfifo_fast").unwrap();
    netlink.set_up(given).unwrap();
    netlink.set_up(other).unwrap();
    let of = |index| netlink.root_discipline(index).unwrap();
    assert_eq!((of(given).as_deref(), of(other).as_deref()), (Some("pfifo_fast"), Some("noqueue")));
    assert_eq!(netlink.ingress_discipline(given).unwrap(), None);
    netlink.set_root_discipline(given, "no_such_kind").unwrap_err();
}

#[test]
fn a_link_moves_to_another_namespace() {
    let (a, b) = (test_host("move-a"), test_host("move-b"));
    let netlink = a.netlink().unwrap();
    let ends = ["m0", "m1"].map(|name| VethEnd { name, namespace: None });
    netlink.create_veth(ends[0], ends[1]).unwrap();
    netlink.move_link(netlink.index_of("m1").unwrap(), &b).unwrap();
    assert!(netlink.link("m1").is_err());
    assert!(b.netlink().unwrap().link("m1").is_ok());
}

#[test]
fn rules_are_added_listed_and_deleted_for_both_families() {
    let ns = test_host("rules");
    let netlink = ns.netlink().unwrap();
    for family in Family::BOTH {
        let before = netlink.rules(family).unwrap();
        assert!(before.iter().all(|rule| !rule.is_own));
        assert_eq!(before.first().map(|rule| (rule.priority, rule.table)), Some((0, Table(255))));
        let rule = Rule {
            family,
            priority: 1_234,
            iif: Some("lo".to_owned()),
            protocol: Some(6),
            table: Table(70_002),
            is_own: true,
        };
        netlink.add_rule(&rule).unwrap();
        assert!(netlink.add_rule(&rule).unwrap_err().is_already_there());
        let listed = netlink.rules(family).unwrap();
        assert!(listed.contains(&rule), "{listed:?}");
        assert_eq!(rule.to_string(), "iif lo ipproto tcp lookup 70002 priority 1234 protocol 206");
        netlink.delete_rule(&rule).unwrap();
        assert!(netlink.delete_rule(&rule).unwrap_err().is_not_there());
        assert_eq!(netlink.rules(family).unwrap(), before);
    }
}

#[test]
fn changes_of_interfaces_are_heard() {
    let ns = test_host("events");
    let netlink = ns.netlink().unwrap();
    let events = ns.run(LinkEvents::open).unwrap().unwrap();
    assert!(!events.take(), "nothing has happened yet");
    let ends = ["ea", "eb"].map(|name| VethEnd { name, namespace: None });
    netlink.create_veth(ends[0], ends[1]).unwrap();
    assert!(events.take());
    assert!(!events.take(), "told once");
    let index = netlink.index_of("ea").unwrap();
    netlink.change_link(index, &LinkChange { mtu: Some(1_300), ..LinkChange::default() }).unwrap();
    assert!(events.take());
    netlink.delete_link(index).unwrap();
    assert!(events.take());
}

#[test]
fn a_missing_interface_is_named() {
    let ns = test_host("missing");
    for name in ["nothere", "a-name-far-too-long-for-linux"] {
        let error = ns.netlink().unwrap().link(name).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert!(error.is_not_there());
    }
    assert!(Namespace::open("ct-io-nothere").unwrap_err().is_not_there());
}
