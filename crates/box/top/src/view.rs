//! [`draw`]: the screens.

mod figures;
mod help;
mod list;
mod reasons;
mod subscriber;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::app::{App, Screen};

pub use figures::three_digits;
pub(crate) use figures::{bits_per_s, bytes, duration_s, micros, subscriber_figures};

/// Styles of the screen. Without colour nothing is lost: what matters is bold, or reversed.
#[derive(Clone, Copy, Debug)]
struct Theme {
    has_colour: bool,
}

impl Theme {
    fn coloured(self, colour: Color) -> Style {
        if self.has_colour { Style::new().fg(colour) } else { Style::new() }
    }

    fn bar(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    fn heading(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    fn label(self) -> Style {
        self.coloured(Color::Cyan)
    }

    fn curve(self) -> Style {
        self.coloured(Color::Green)
    }

    fn second_curve(self) -> Style {
        self.coloured(Color::Yellow)
    }

    fn warning(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }
}

/// Draws what the view shows.
pub fn draw(frame: &mut Frame<'_>, app: &App) {
    let theme = Theme { has_colour: app.has_colour };
    let [top, body, bottom] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    title(frame, top, app, theme);
    match app.screen {
        _ if app.has_help => help::draw(frame, body, theme),
        Screen::List => list::draw(frame, body, app, theme),
        Screen::Subscriber(client) => subscriber::draw(frame, body, app, client, theme),
    }
    footer(frame, bottom, app, theme);
}

fn title(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let history = app.history();
    let mut words = vec!["cellerator top".to_owned()];
    words.push(history.name.clone().unwrap_or_else(|| "no accelerator runs".to_owned()));
    if let Some((snapshot, _)) = &history.last {
        let what = match snapshot {
            _ if !snapshot.stands_by.is_empty() => "standing by",
            _ if snapshot.is_draining => "draining",
            _ => "running",
        };
        words.push(format!("{what} {}", duration_s(snapshot.uptime_ms / 1_000)));
        words.push(snapshot.steering.clone());
        let down = ["wired", "mobile"].into_iter().zip(snapshot.are_up).filter(|(_, is_up)| !is_up);
        words.extend(down.map(|(side, _)| format!("{side} is down")));
    }
    let others = history.names.len().saturating_sub(1);
    if others > 0 {
        words.push(format!("{others} more: Tab"));
    }
    words.push(app.place.clone());
    if app.is_paused() {
        words.push("PAUSED".to_owned());
    }
    frame.buffer_mut().set_style(area, theme.bar());
    frame.render_widget(Line::from(format!(" {}", words.join("  "))), area);
}

fn footer(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let trouble = app.trouble.as_ref().or(app.history().trouble.as_ref());
    let line = if app.is_typing {
        Line::from(vec![
            Span::styled("filter: ", theme.label()),
            Span::raw(app.filter.clone()),
            Span::styled(" ", theme.bar()),
            Span::styled("  Enter keeps it, Esc shows all", theme.label()),
        ])
    } else if let Some(trouble) = trouble {
        Line::styled(trouble.clone(), theme.warning())
    } else if app.has_help {
        Line::styled("any key: back", theme.label())
    } else if let Screen::Subscriber(_) = app.screen {
        Line::styled("Esc back  ↑↓ flows  p pause  ? help  q quit", theme.label())
    } else {
        Line::styled(
            "Enter open  ←→ order  r reverse  / filter  p pause  Tab next  ? help  q quit",
            theme.label(),
        )
    };
    frame.render_widget(line, area);
}
