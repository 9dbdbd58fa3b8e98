//! [`cautions`]: interfaces that are hardly the right ones: exchanged, or parts of others.

use io::IoError;
use io::netlink::{Cidr, Family, Netlink, Table};

/// Warnings about `wired` and `mobile`, a line each.
///
/// # Errors
/// When the kernel does not answer.
pub(crate) fn cautions([wired, mobile]: [&str; 2], netlink: &Netlink) -> Result<Vec<String>, IoError> {
    let mut all = Vec::new();
    let links = netlink.links()?;
    for name in [wired, mobile] {
        let link = netlink.link(name)?;
        let Some(whole) = links.iter().find(|whole| Some(whole.index) == link.bridge) else { continue };
        let kind = whole.kind.as_deref().unwrap_or("device");
        let of = &whole.name;
        all.push(match kind {
            "vrf" => format!(
                "interface '{name}' is in VRF '{of}', which has routes of its own: TCP that is routed there may go past \
                 this process; it is not known to work"
            ),
            _ => format!(
                "interface '{name}' is part of {kind} '{of}', by which packets are routed: name '{of}' in its place"
            ),
        });
    }
    let [wired_index, mobile_index] = [netlink.index_of(wired)?, netlink.index_of(mobile)?];
    for family in Family::BOTH {
        let everything = Cidr::everything(family);
        let routes = netlink.routes(family, Table::MAIN).unwrap_or_default();
        let leads =
            |index| routes.iter().any(|route| route.destination == everything && route.device == Some(index));
        if leads(mobile_index) && !leads(wired_index) {
            all.push(format!(
                "the default route leads through '{mobile}', which was named as the side of the clients: are the \
                 interfaces exchanged? It would be --wired {mobile} --mobile {wired}"
            ));
            break;
        }
    }
    Ok(all)
}
