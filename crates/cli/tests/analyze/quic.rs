//! QUIC flows as a user sees them: table, JSON, page, and where they are left out.

use serde_json::Value;

use super::{analyze, text};

const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 50_000);
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 443);
const CLIENT_ID: &[u8] = &[0xc1; 5];
const SERVER_ID: &[u8] = &[0x51; 8];

/// A packet of version 1 with a long header, whose protected part has `len` bytes.
fn long(kind: u8, [to, from]: [&[u8]; 2], len: usize) -> Vec<u8> {
    let mut bytes = vec![0xc0 | kind << 4, 0, 0, 0, 1];
    for id in [to, from] {
        bytes.push(id.len() as u8);
        bytes.extend(id);
    }
    if kind == 0 {
        bytes.push(0);
    }
    bytes.extend((0x4000 | len as u16).to_be_bytes());
    bytes.extend(vec![kind; len]);
    bytes
}

fn short(id: &[u8], number: u8) -> Vec<u8> {
    [&[0x40][..], id, &[number; 40]].concat()
}

/// A pcap file (raw IP, microseconds): a handshake of 30 ms to the server and 8 ms to the client, a request after a
/// second, one from another port of the client's, and a query to a resolver.
fn capture() -> Vec<u8> {
    let moved = ([10, 0, 0, 1], 50_001);
    let packets = [
        (0_u32, CLIENT, SERVER, long(0, [&[9; 8], CLIENT_ID], 1_190)),
        (30_000, SERVER, CLIENT, long(0, [CLIENT_ID, SERVER_ID], 1_190)),
        (38_000, CLIENT, SERVER, long(2, [SERVER_ID, CLIENT_ID], 60)),
        (1_038_000, CLIENT, SERVER, short(SERVER_ID, 1)),
        (1_070_000, SERVER, CLIENT, short(CLIENT_ID, 2)),
        (1_090_000, moved, SERVER, short(SERVER_ID, 3)),
        (1_200_000, CLIENT, ([10, 0, 0, 9], 53), vec![7; 30]),
    ];
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101_u32] {
        file.extend(word.to_le_bytes());
    }
    for (us, source, destination, payload) in packets {
        let len = |headers: usize| (payload.len() + headers) as u16;
        let mut frame = vec![0x45, 0];
        frame.extend(len(28).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend(source.0);
        frame.extend(destination.0);
        for field in [source.1, destination.1, len(8), 0] {
            frame.extend(field.to_be_bytes());
        }
        frame.extend(&payload);
        for word in [us / 1_000_000, us % 1_000_000, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

#[test]
fn the_table_says_what_is_inferred() {
    let out = text(&analyze(&["-"], &capture()).stdout);
    for said in [
        "-: 7 packets, 0 of TCP, 7 of UDP\n",
        "\n0 TCP flows\n",
        "\n1 QUIC flow; nothing is decrypted: headers and counts, then what is inferred from them\n",
        "QUIC #0 10.0.0.1:50000 -> 10.0.0.2:443  1.090 s\n",
        "  version 1; connection IDs of 5 and 8 bytes\n",
        "  long headers: 1>2 1 Initial, 1 Handshake; 2>1 1 Initial\n",
        "  1 pauses of both ends, 1.000 s in all, the longest 1.000 s\n",
        "  inferred: handshake 38.00 ms (server 30.00, client 8.00)\n",
        "  inferred: spin bit: too few or too sparse packets to tell\n",
        "  inferred: flowlets: 1 answers after pauses, shortest ms (server 32.00, client -)\n",
        "  inferred: the client moved from 10.0.0.1:50000 to 10.0.0.1:50001 after 1.090 s: same connection ID\n",
        "other UDP: 1 conversations, 1 datagrams, 58 B; by port: 53 (1 datagrams, 58 B)\n",
    ] {
        assert!(out.contains(said), "{said:?} is not in\n{out}");
    }
}

#[test]
fn json_and_page_have_it_apart_whatever_the_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("report.html");
    let out = analyze(&["-", "--json", "--html", &page.display().to_string()], &capture());
    let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let flow = &json["quic"][0];
    assert_eq!(flow["version"]["name"], "1");
    assert_eq!((&flow["recognized_by"], &flow["inferred"]["client"]), (&"version".into(), &0.into()));
    assert_eq!(flow["inferred"]["handshake"]["total_ms"], 38.0);
    assert_eq!(flow["inferred"]["moves"][0]["to"], "10.0.0.1:50001");
    assert_eq!((&json["udp"]["datagrams"], &json["captures"][0]["datagrams"]), (&7.into(), &7.into()));
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("id=\"quic\""));
    let of = |threads: &str| {
        let mut json: Value =
            serde_json::from_slice(&analyze(&["-", "--json", "--threads", threads], &capture()).stdout)
                .expect("JSON");
        json["made_by"].take();
        json
    };
    assert_eq!(of("1"), of("3"));
}

#[test]
fn a_comparison_says_that_quic_is_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (folder.path().join("a.pcap"), folder.path().join("b.pcap"));
    for path in [&a, &b] {
        std::fs::write(path, capture()).expect("written");
    }
    let groups = [format!("a={}", a.display()), format!("b={}", b.display())];
    let out = analyze(&["--compare", "--group", &groups[0], "--group", &groups[1]], &[]);
    let said = text(&out.stderr);
    assert!(said.contains("QUIC flows are not compared, but TCP alone: 2 are left out"), "{said}");
}

#[test]
fn words_of_the_json_are_explained() {
    let out = text(&analyze(&["--explain", "quic"], &[]).stdout);
    assert!(out.contains("quic_spin.state = random: Not spinning"), "{out}");
}
