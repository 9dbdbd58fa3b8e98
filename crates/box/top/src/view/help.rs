//! The screen that explains keys and columns.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::Theme;

const HELP: [(&str, &str); 20] = [
    ("↑ ↓ PgUp PgDn", "choose a subscriber; on its own screen: scroll its flows"),
    ("Enter", "open it: its flows, its controller, what is not accelerated"),
    ("Esc", "back; on the list: show all again"),
    ("← → or 1 to 7", "the column that orders the list"),
    ("r", "the other way round"),
    ("/", "show addresses only that have this in them"),
    ("p or space", "stand still; once more: go on"),
    ("Tab", "the next accelerator of this machine"),
    ("q or Ctrl-C", "quit"),
    ("", ""),
    ("rate", "payload that the subscriber got, over all its flows"),
    ("queue", "estimate: round trips less the shortest of their flow"),
    ("RTT", "smoothed round trip between here and the subscriber"),
    ("sent again", "payload that was sent again"),
    ("held", "memory in buffers of its flows"),
    ("flows", "flows in the table; passed flows are none"),
    ("", ""),
    ("controller", "what all flows together may send: a rate, a window,"),
    ("", "or both"),
    ("data", "downlink: to the subscriber; uplink: from it"),
];

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let line = |(key, what): &(&'static str, &'static str)| {
        Line::from(vec![Span::styled(format!("  {key:<16}"), theme.heading()), Span::raw(*what)])
    };
    frame.render_widget(Paragraph::new(HELP.iter().map(line).collect::<Vec<_>>()), area);
}
