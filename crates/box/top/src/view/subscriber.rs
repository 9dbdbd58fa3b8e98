//! One subscriber: its controller's last minute, its flows, and what of it is not accelerated.

use std::net::IpAddr;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::symbols::Marker;
use ratatui::text::{Line, Text};
use ratatui::widgets::{Axis, Cell, Chart, Dataset, GraphType, Paragraph, Row, Table};
use run::{FlowLine, OpaqueLine, PassedLine};

use super::{Theme, bits_per_s, bytes, duration_s, micros, reasons, three_digits};
use crate::app::App;
use crate::history::{CHART_MS, Detail, Moment};

/// Lines of what is not accelerated, its heading included.
const PASSED_LINES: u16 = 4;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, client: IpAddr, theme: Theme) {
    let Some(detail) = app.history().detail.as_ref().filter(|detail| detail.client == client) else {
        frame.render_widget(Line::from(format!(" {client}: waiting for the next sample")), area);
        return;
    };
    let facts = fact_lines(detail, theme);
    let chart_height = (area.height / 2).saturating_sub(2).clamp(5, 16);
    let [facts_area, charts, flows, passed] = Layout::vertical([
        Constraint::Length(facts.len().max(3) as u16),
        Constraint::Length(chart_height),
        Constraint::Fill(1),
        Constraint::Length(PASSED_LINES),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(facts), facts_area);
    draw_charts(frame, charts, detail, theme);
    draw_flows(frame, flows, detail, app.flows_above, theme);
    draw_passed(frame, passed, detail, theme);
}

fn fact_lines(detail: &Detail, theme: Theme) -> Vec<Line<'static>> {
    let client = detail.client;
    let Some(row) = &detail.row else {
        let line = format!(" {client} is not known: it has had no flow for a while");
        return vec![Line::styled(line, theme.warning())];
    };
    let line = &row.line;
    let gets = [
        format!(" gets {}", bits_per_s(row.delivered_bps)),
        format!("queue {}", micros(line.queueing_us)),
        format!("RTT {}", micros(line.srtt_us)),
        format!("sent again {}", bits_per_s(row.retransmitted_bps)),
    ];
    let window = line.window_bytes.map_or("-".to_owned(), bytes);
    // The larger of its two units will do.
    let idle = duration_s(line.idle_ms / 1_000).split(' ').take(2).collect::<Vec<_>>().join(" ");
    let may = [
        format!(" may send {}", bits_per_s(line.rate_bps)),
        format!("window {window}"),
        format!("in flight {}", bytes(line.in_flight_bytes)),
        format!("held {}", bytes(line.held_bytes)),
        format!("idle {idle}"),
    ];
    let name = match line.port {
        Some(port) => std::net::SocketAddr::new(client, port).to_string(),
        None => client.to_string(),
    };
    let name = Line::styled(format!(" {name}"), theme.heading());
    let passes = line.opaque.as_ref().map(|opaque| Line::from(passes(opaque)));
    let lines = [name, Line::from(gets.join("  ")), Line::from(may.join("  "))];
    lines.into_iter().chain(passes).collect()
}

/// A version of QUIC, as people write it (RFC 9000, RFC 9369).
fn version_name(version: u32) -> String {
    match version {
        1 => "1".to_owned(),
        0x6b33_43cf => "2".to_owned(),
        other => format!("{other:#010x}"),
    }
}

/// Text about the traffic that passes to a subscriber, and the evidence of how much of it has left.
fn passes(opaque: &OpaqueLine) -> String {
    let kinds = [
        ("TCP", opaque.tcp_bytes),
        ("QUIC", opaque.quic_bytes),
        ("UDP", opaque.udp_bytes),
        ("else", opaque.other_bytes),
    ];
    let kinds = kinds.into_iter().filter(|(_, count)| *count > 0);
    let kinds: String = kinds.map(|(name, count)| format!("  {name} {}", bytes(count))).collect();
    let handshake = opaque.quic_version.zip(opaque.quic_handshake_us);
    let quic = handshake.map_or(String::new(), |(version, us)| {
        format!("  QUIC {} handshake {}", version_name(version), micros(Some(us)))
    });
    let waiting = bytes(opaque.waiting_bytes);
    format!(" passed{kinds}{quic}  waiting {waiting}  known by {}", opaque.evidence)
}

type Curve = fn(&Moment) -> Option<u64>;

/// A chart: its name, one curve or two, and how its largest value is written.
struct Panel {
    name: &'static str,
    curves: [Option<Curve>; 2],
    write: fn(u64) -> String,
}

const PANELS: [Panel; 3] = [
    Panel {
        name: "bit/s ━ got, ┄ allowed",
        curves: [Some(|it| it.delivered_bps), Some(|it| it.rate_bps)],
        write: |bps| three_digits(bps, ["", "k", "M", "G"]),
    },
    Panel { name: "window", curves: [Some(|it| it.window_bytes), None], write: bytes },
    Panel {
        name: "RTT ━, ┄ in queues",
        curves: [Some(|it| it.srtt_us), Some(|it| it.queueing_us)],
        write: |us| micros(Some(us)),
    },
];

fn draw_charts(frame: &mut Frame<'_>, area: Rect, detail: &Detail, theme: Theme) {
    let columns = Layout::horizontal([Constraint::Fill(1); PANELS.len()]).spacing(1).split(area);
    for (panel, area) in PANELS.iter().zip(columns.iter()) {
        let [name, chart] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(*area);
        frame.render_widget(Line::styled(format!(" {}", panel.name), theme.label()), name);
        draw_chart(frame, chart, detail, panel, theme);
    }
}

fn draw_chart(frame: &mut Frame<'_>, area: Rect, detail: &Detail, panel: &Panel, theme: Theme) {
    let newest = detail.moments.back().map_or(0, |moment| moment.at_ms);
    let points = |curve: Option<Curve>| -> Vec<(f64, f64)> {
        let curve = curve.into_iter();
        curve
            .flat_map(|curve| detail.moments.iter().map(move |moment| (moment.at_ms, curve(moment))))
            .filter_map(|(at_ms, value)| Some((-(newest.saturating_sub(at_ms) as f64), value? as f64)))
            .collect()
    };
    let [solid, dotted] = panel.curves.map(points);
    let most = solid.iter().chain(&dotted).fold(0.0, |most: f64, (_, value)| most.max(*value));
    if most == 0.0 {
        frame.render_widget(Line::from("   nothing yet"), area);
        return;
    }
    let sets = vec![
        Dataset::default()
            .marker(Marker::Dot)
            .graph_type(GraphType::Scatter)
            .style(theme.second_curve())
            .data(&dotted),
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(theme.curve())
            .data(&solid),
    ];
    let axis = Style::new();
    let x = Axis::default().style(axis).bounds([-(CHART_MS as f64), 0.0]).labels(["-60 s", "now"]);
    let top = (panel.write)(most as u64);
    let y = Axis::default().style(axis).bounds([0.0, most]).labels(["0".to_owned(), top]);
    frame.render_widget(Chart::new(sets).x_axis(x).y_axis(y).legend_position(None), area);
}

fn draw_flows(frame: &mut Frame<'_>, area: Rect, detail: &Detail, above: usize, theme: Theme) {
    let flows: Vec<&FlowLine> = detail.flows().collect();
    let known = detail.row.as_ref().map_or(0, |row| row.line.flows);
    let what = if detail.is_whole {
        format!(" {} flows, server", flows.len())
    } else {
        format!(" {} flows of {known} found, server", flows.len())
    };
    let titles = ["data", "state", "owed", "held", "RTT", "idle"];
    let header = [Cell::from(what)].into_iter();
    let header = header.chain(titles.map(|title| Cell::from(Text::from(title).right_aligned())));
    let room = usize::from(area.height.saturating_sub(1));
    let first = above.min(flows.len().saturating_sub(room));
    let rows = flows.iter().skip(first).take(room).map(|flow| flow_row(flow));
    let widths = [9, 11, 8, 8, 8, 9].map(Constraint::Length);
    let widths = [Constraint::Fill(1)].into_iter().chain(widths);
    let table = Table::new(rows, widths).header(Row::new(header).style(theme.heading())).column_spacing(1);
    frame.render_widget(table, area);
}

fn flow_row(flow: &FlowLine) -> Row<'static> {
    let figures = [
        flow.direction.clone(),
        flow.state.clone(),
        bytes(flow.debt_bytes),
        bytes(flow.held_bytes),
        micros(flow.srtt_us),
        duration_s(flow.idle_ms / 1_000),
    ];
    let figures = figures.map(|figure| Cell::from(Text::from(figure).right_aligned()));
    Row::new([Cell::from(format!(" {}", flow.server))].into_iter().chain(figures))
}

fn draw_passed(frame: &mut Frame<'_>, area: Rect, detail: &Detail, theme: Theme) {
    let (ended, passed): (Vec<&PassedLine>, Vec<&PassedLine>) =
        detail.passed.iter().partition(|flow| reasons::is_end(&flow.reason));
    let what = match (passed.len(), ended.len()) {
        (0, 0) => " not accelerated: none of late".to_owned(),
        (0, ended) => format!(" not accelerated: none of late; {ended} have ended"),
        (passed, ended) => format!(" not accelerated: {passed} of late; {ended} have ended"),
    };
    let mut lines = vec![Line::styled(what, theme.heading())];
    lines.extend(passed.into_iter().chain(ended).map(|flow| {
        let port = flow.client.port();
        Line::from(format!(" {port} ▸ {}  {}: {}", flow.server, flow.reason, reasons::meaning(&flow.reason)))
    }));
    frame.render_widget(Paragraph::new(lines), area);
}
