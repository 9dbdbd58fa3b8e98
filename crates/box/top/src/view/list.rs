//! Totals with their last minutes, and the subscribers.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};

use super::{Theme, bits_per_s, bytes, micros, subscriber_figures};
use crate::app::{App, Column};
use crate::history::Row as Subscriber;
use crate::totals::Totals;

/// Width of a total's name, and of its value.
const NAME_WIDTH: u16 = 14;
const VALUE_WIDTH: u16 = 13;

/// A line of the totals: name, value as it is shown, value as it is drawn.
type Measure = (&'static str, fn(&Totals) -> String, fn(&Totals) -> u64);

const MEASURES: [Measure; 6] = [
    ("to clients", |it| bits_per_s(it.downlink_goodput_bps), |it| it.downlink_goodput_bps.unwrap_or(0)),
    ("to servers", |it| bits_per_s(it.uplink_goodput_bps), |it| it.uplink_goodput_bps.unwrap_or(0)),
    ("queue", |it| micros(it.queueing_us), |it| it.queueing_us.unwrap_or(0)),
    ("RTT", |it| micros(it.round_trip_us), |it| it.round_trip_us.unwrap_or(0)),
    ("sent again", |it| bits_per_s(it.retransmitted_bps), |it| it.retransmitted_bps.unwrap_or(0)),
    ("held", |it| bytes(it.held_bytes), |it| it.held_bytes),
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let [totals, levels, subscribers] = Layout::vertical([
        Constraint::Length(MEASURES.len() as u16),
        Constraint::Length(4),
        Constraint::Fill(1),
    ])
    .areas(area);
    draw_totals(frame, totals, app, theme);
    draw_levels(frame, levels, app, theme);
    draw_subscribers(frame, subscribers, app, theme);
}

fn draw_totals(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let totals = &app.history().totals;
    let lines = Layout::vertical([Constraint::Length(1); MEASURES.len()]).split(area);
    for ((name, show, value), line) in MEASURES.into_iter().zip(lines.iter()) {
        let [name_area, value_area, curve] = Layout::horizontal([
            Constraint::Length(NAME_WIDTH),
            Constraint::Length(VALUE_WIDTH),
            Constraint::Fill(1),
        ])
        .areas(*line);
        frame.render_widget(Line::styled(format!(" {name}"), theme.label()), name_area);
        let last = totals.back().map_or("-".to_owned(), show);
        frame.render_widget(Line::from(format!("{last:>11}")), value_area);
        let newest = totals.len().saturating_sub(usize::from(curve.width));
        let values: Vec<u64> = totals.iter().skip(newest).map(value).collect();
        frame.render_widget(Sparkline::default().data(values).style(theme.curve()), curve);
    }
}

fn draw_levels(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let totals = app.history().totals.back().cloned().unwrap_or_default();
    let states: Vec<_> =
        totals.flows.iter().filter(|(_, n)| **n > 0).map(|(state, n)| format!("{n} {state}")).collect();
    let most_first = |counts: &BTreeMap<String, u64>, show: fn(u64) -> String| {
        let mut counts: Vec<_> = counts.iter().collect();
        counts.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        counts.into_iter().map(|(name, n)| format!("{} {name}", show(*n))).collect::<Vec<_>>()
    };
    let passed = most_first(&totals.passed, |n| n.to_string());
    let carried = most_first(&totals.carried_bytes, bytes);
    let or_none = |words: Vec<String>| if words.is_empty() { "none".to_owned() } else { words.join(", ") };
    let packets = totals.packets_per_s.map_or("-".to_owned(), |n| n.to_string());
    let lines = [
        ("flows", format!("{}; owed {}; {packets} packets/s", or_none(states), bytes(totals.debt_bytes))),
        ("left, passed", or_none(passed)),
        ("carried", or_none(carried)),
    ];
    let line = |(name, text): (&str, String)| {
        let name = format!(" {name:<width$}", width = usize::from(NAME_WIDTH));
        Line::from(vec![Span::styled(name, theme.label()), Span::raw(text)])
    };
    frame.render_widget(Paragraph::new(lines.map(line).to_vec()), area);
}

/// Widths of the columns behind the addresses.
const WIDTHS: [u16; 6] = [11, 8, 8, 11, 8, 6];

fn draw_subscribers(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let rows = app.rows();
    let selected = app.selected_in(&rows);
    let room = usize::from(area.height.saturating_sub(1));
    // The chosen one stays in the middle, but for the ends of the list.
    let first = selected.saturating_sub(room / 2).min(rows.len().saturating_sub(room));
    let shown = rows.iter().enumerate().skip(first).take(room).map(|(at, row)| {
        let style = if at == selected { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        table_row(row).style(style)
    });
    let widths = [Constraint::Fill(1)].into_iter().chain(WIDTHS.map(Constraint::Length));
    let table = Table::new(shown, widths).header(header(app, rows.len(), theme)).column_spacing(1);
    frame.render_widget(table, area);
    if rows.is_empty() && room > 0 {
        let line = Rect { y: area.y + 1, height: 1, ..area };
        frame.render_widget(Line::from(format!(" {}", emptiness(app))), line);
    }
}

fn emptiness(app: &App) -> String {
    match (&app.history().name, app.filter.as_str()) {
        (None, _) => "no accelerator is running, or this user may not see it".to_owned(),
        (_, "") => "no subscriber is known".to_owned(),
        (_, filter) => format!("no subscriber has '{filter}' in its address: Esc shows all"),
    }
}

fn header(app: &App, shown: usize, theme: Theme) -> Row<'static> {
    let known = app.history().totals.back().map_or(0, |totals| totals.subscribers);
    let cells = Column::ALL.map(|column| {
        let arrow = match (column == app.column, app.is_reversed) {
            (false, _) => "",
            (true, false) => "▼",
            (true, true) => "▲",
        };
        let text = match column {
            Column::Address if app.filter.is_empty() && app.history().is_whole => {
                format!(" {shown} subscribers{arrow}")
            }
            Column::Address => format!(" {shown} of {known}{arrow}"),
            other => format!("{}{arrow}", other.name()),
        };
        let text =
            if column == Column::Address { Text::from(text) } else { Text::from(text).right_aligned() };
        let chosen = if column == app.column { Modifier::UNDERLINED } else { Modifier::empty() };
        Cell::from(text).style(theme.heading().add_modifier(chosen))
    });
    Row::new(cells)
}

fn table_row(row: &Subscriber) -> Row<'static> {
    let line = &row.line;
    let address = match line.port {
        Some(port) => std::net::SocketAddr::new(line.address, port).to_string(),
        None => line.address.to_string(),
    };
    let figures = subscriber_figures(row).map(|figure| Cell::from(Text::from(figure).right_aligned()));
    Row::new([Cell::from(format!(" {address}"))].into_iter().chain(figures))
}
