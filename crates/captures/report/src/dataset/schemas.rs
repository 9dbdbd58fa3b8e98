//! The columns of the tables.

use tables::{Column, TableSchema};

use super::ends;

/// Changes when a column changes its meaning or goes.
const VERSION: u32 = 1;

fn run() -> Column {
    Column::text("run")
        .required()
        .meaning("The analysis that this row is from; from the captures' contents, or the series' name")
}

fn flow_id() -> Column {
    Column::int("flow_id").required().meaning("The flow, in all tables and runs")
}

fn direction() -> Column {
    Column::int("direction").required().meaning("0: from the sender of the flow's first packet; 1: to it")
}

fn count(name: &str, meaning: &str) -> Column {
    Column::int(name).required().meaning(meaning)
}

fn bytes(name: &str, meaning: &str) -> Column {
    count(name, meaning).unit("B")
}

fn ms(name: &str, meaning: &str) -> Column {
    Column::float(name).unit("ms").meaning(meaning)
}

fn table(name: &str, columns: Vec<Column>) -> TableSchema {
    columns.into_iter().fold(TableSchema::new(name, VERSION), TableSchema::with)
}

/// All, in the order of the writer's tables.
pub(super) fn all(of_report: &[Column]) -> [TableSchema; 7] {
    [captures(), flows(of_report), mptcp(), intervals(), events(), samples(), pairs()]
}

fn captures() -> TableSchema {
    let columns = vec![
        run(),
        Column::text("capture").required().meaning("Identity of the file's contents"),
        Column::text("file").required().meaning("Its name when it was read"),
        count("packets", "Packets read"),
        count("segments", "TCP segments"),
        count("clipped", "Packets kept in part"),
        count("time_steps_back", "Steps back in time"),
        count("sorted", "Packets that lie behind later ones and were put in the order of time"),
        count("bad_blocks", "Packet blocks that could not be read"),
        Column::int("dropped").meaning("Packets that the capturing machine says it lost"),
        Column::text("problem").meaning("Where and why it could not be read to its end"),
        count("skipped_unknown_link", "Packets of an unknown link type"),
        count("skipped_not_ip", "Packets without IP"),
        count("skipped_not_tcp", "Packets without TCP"),
        count("skipped_fragment", "Fragments"),
        count("skipped_cut", "Packets with headers cut or wrong"),
    ];
    table("captures", columns)
}

fn flows(of_report: &[Column]) -> TableSchema {
    let mut columns = vec![flow_id(), run(), Column::time("start").required().meaning("First packet")];
    columns.extend(of_report.iter().cloned());
    table("flows", columns)
}

fn mptcp() -> TableSchema {
    let columns = vec![
        run(),
        count("connection", "Number of the connection in its run"),
        Column::int("version").meaning("Version of Multipath TCP"),
        Column::int("flow_id").meaning("The subflow's flow"),
        Column::text("file").meaning("The file in which the flow's first packet lies"),
        Column::text("client").required().meaning("End of the subflow that opened the connection"),
        Column::text("client_address").required().meaning("Its address"),
        count("client_port", "Its port"),
        Column::text("server").required().meaning("The other end"),
        Column::text("server_address").required().meaning("Its address"),
        count("server_port", "Its port"),
        Column::bool("joined")
            .required()
            .meaning("Joined by a token; false for the connection's first subflow"),
        Column::bool("to_client").required().meaning("Direction of this row's figures"),
        bytes("bytes", "Bytes of the connection's data that were seen on this subflow first"),
        Column::float("share").meaning("Of the connection's bytes"),
        bytes("reinjected_bytes", "Bytes carried here after another subflow had, each counted once"),
        bytes("repeated_bytes", "Bytes carried here again: the subflow's own retransmissions"),
        count("mappings", "Packets that announced a mapping"),
        bytes("connection_bytes", "Bytes of the connection, each once"),
        bytes("connection_reinjected_bytes", "Bytes of the connection carried again by another subflow"),
        count(
            "connection_out_of_order",
            "Packets with new data that came before an earlier data sequence number",
        ),
        ms("connection_out_of_order_delay_p50_ms", "Wait until in order: median"),
        ms("connection_out_of_order_delay_p95_ms", "Wait until in order: 95th percentile"),
        ms("connection_out_of_order_delay_max_ms", "Wait until in order: longest"),
    ];
    table("mptcp", columns)
}

fn intervals() -> TableSchema {
    let mut columns = vec![flow_id()];
    columns.extend(ends::columns());
    columns.extend([
        direction(),
        Column::time("start")
            .required()
            .meaning("Start of 100 ms, at a multiple of them since 1970; without packets no row"),
        count("packets", "Packets"),
        count("data_packets", "Packets with data"),
        bytes("payload_bytes", "Payload, repetitions included"),
        count("retransmitted_packets", "Packets with data seen before"),
        bytes("retransmitted_bytes", "Payload of these"),
        count("repaired", "Packets that filled holes: lost before the capture point"),
        count("reordered", "Packets that filled holes: late"),
        count("duplicate_acks", "Duplicate acknowledgements sent"),
        bytes("acked_bytes", "Bytes of the other direction acknowledged"),
        Column::int("window_min").unit("B").meaning("Smallest window advertised"),
        count(
            "rtt_n",
            "Round-trip times by Karn's rule that this direction's packets gave for the other's data",
        ),
        ms("rtt_min_ms", "Their smallest"),
        ms("rtt_mean_ms", "Their mean"),
        ms("rtt_max_ms", "Their largest"),
    ]);
    table("intervals", columns)
}

fn events() -> TableSchema {
    let mut columns = vec![flow_id()];
    columns.extend(ends::columns());
    columns.extend([
        direction(),
        Column::time("time").required().meaning("When"),
        Column::int("time_ns").required().unit("ns").meaning("When, since 1970"),
        Column::text("event").required().meaning("What: retransmission, spurious, window_probe, keep_alive, repaired, reordered, zero_window, congestion_mark, congestion_answer, reset"),
        Column::int("offset").required().unit("B").meaning("Position in the stream, after its first byte seen"),
        bytes("len", "Bytes"),
        Column::text("cause").meaning("Why it was sent again: syn, rto, rto_recovery, fast, tlp, unclear"),
        Column::text("by").meaning("How it is known to have been spurious: dsack, timestamp, acknowledged"),
        Column::int("sent_ns").unit("ns").meaning("When what was spurious had been sent again"),
    ]);
    table("events", columns)
}

fn samples() -> TableSchema {
    let mut columns = vec![flow_id()];
    columns.extend(ends::columns());
    columns.extend([
        Column::int("direction").required().meaning("The direction of the data whose round trip it is"),
        Column::time("time").required().meaning("When the answer was captured"),
        Column::int("time_ns").required().unit("ns").meaning("When, since 1970"),
        ms("karn_ms", "Round-trip time by Karn's rule"),
        ms("timestamps_ms", "Round-trip time by timestamps"),
    ]);
    table("samples", columns)
}

fn pairs() -> TableSchema {
    let mut columns = vec![
        run(),
        Column::int("client_flow_id").required().meaning("The flow captured nearer to the client"),
        Column::int("server_flow_id").required().meaning("The same connection captured nearer to the server"),
    ];
    columns.extend(ends::columns_of_both());
    columns.extend([
        ms("clock_offset_ms", "The server's clock less the client's"),
        ms("path_rtt_ms", "From one point to the other and back during the handshake"),
        Column::bool("is_translated")
            .required()
            .meaning("Addresses or ports differ between the points: something between translates them"),
        Column::int("lost_to_server").meaning("Packets that the server's point did not see; none where something between acknowledges by itself"),
        Column::int("lost_to_client").meaning("Packets that the client's point did not see; the same"),
    ]);
    table("pairs", columns)
}
