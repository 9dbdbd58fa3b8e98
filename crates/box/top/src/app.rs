//! [`App`]: what is on the screen, and what keys do to it.

use std::net::IpAddr;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::history::{History, Row};
use crate::{Focus, Sample};

/// Lines that a page key moves by.
const PAGE: isize = 10;

/// Screen that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Screen {
    /// Totals and subscribers.
    #[default]
    List,
    /// One of them.
    Subscriber(IpAddr),
}

/// A column of the subscribers, and their order by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    /// Its address.
    Address,
    /// Rate that it gets.
    #[default]
    Rate,
    /// Time in queues.
    Queueing,
    /// Round trip.
    RoundTrip,
    /// Share of bytes sent again.
    Retransmitted,
    /// Memory in buffers.
    Held,
    /// Flows.
    Flows,
}

impl Column {
    /// All of them, in order.
    pub const ALL: [Self; 7] = [
        Self::Address,
        Self::Rate,
        Self::Queueing,
        Self::RoundTrip,
        Self::Retransmitted,
        Self::Held,
        Self::Flows,
    ];

    /// Its heading.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Address => "subscriber",
            Self::Rate => "rate",
            Self::Queueing => "queue",
            Self::RoundTrip => "RTT",
            Self::Retransmitted => "sent again",
            Self::Held => "held",
            Self::Flows => "flows",
        }
    }

    /// Value that orders the rows: the largest first, but addresses from the smallest on.
    fn value(self, row: &Row) -> u64 {
        let value = match self {
            Self::Address => None,
            Self::Rate => row.delivered_bps,
            Self::Queueing => row.line.queueing_us,
            Self::RoundTrip => row.line.srtt_us,
            Self::Retransmitted => row.retransmitted_bps,
            Self::Held => Some(row.line.held_bytes),
            Self::Flows => Some(u64::from(row.line.flows)),
        };
        value.map_or(0, |value| value.saturating_add(1))
    }
}

/// The view.
#[derive(Clone, Debug, Default)]
pub struct App {
    /// Place of the accelerators: `this machine`, or `HOST:PORT`.
    pub place: String,
    /// Nothing is told by its colour if this is false.
    pub has_colour: bool,
    /// Screen that is shown.
    pub screen: Screen,
    /// The column that orders the subscribers.
    pub column: Column,
    /// The other way round.
    pub is_reversed: bool,
    /// Only subscribers with this in their addresses.
    pub filter: String,
    /// The filter is being typed.
    pub is_typing: bool,
    /// The keys are explained.
    pub has_help: bool,
    /// Flows of the subscriber that are left out above.
    pub flows_above: usize,
    /// Reason why there is no new sample.
    pub trouble: Option<String>,
    /// The user wants to go.
    pub is_over: bool,
    history: History,
    /// History shown while the view stands still.
    frozen: Option<Box<History>>,
    wanted: Option<String>,
    selected: Option<(IpAddr, Option<u16>)>,
}

impl App {
    /// A view of accelerators at a place, without a sample yet.
    #[must_use]
    pub fn new(place: String, has_colour: bool) -> Self {
        Self { place, has_colour, ..Self::default() }
    }

    /// Takes a sample in; one that was asked for a subscriber that is looked at no more adds nothing there.
    pub fn add(&mut self, sample: Sample) {
        self.trouble = None;
        self.history.add(sample);
    }

    /// History that is shown.
    #[must_use]
    pub fn history(&self) -> &History {
        self.frozen.as_deref().unwrap_or(&self.history)
    }

    /// True while the view stands still.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.frozen.is_some()
    }

    /// Accelerator and client to ask about.
    #[must_use]
    pub fn focus(&self) -> Focus {
        let client = match self.screen {
            Screen::List => None,
            Screen::Subscriber(client) => Some(client),
        };
        Focus { name: self.wanted.clone(), client }
    }

    /// The subscribers in their order.
    #[must_use]
    pub fn rows(&self) -> Vec<&Row> {
        let is_meant =
            |row: &&Row| self.filter.is_empty() || row.line.address.to_string().contains(&self.filter);
        let mut rows: Vec<&Row> = self.history().rows().filter(is_meant).collect();
        // They come in the order of addresses, which stays among equals.
        rows.sort_by_key(|row| std::cmp::Reverse(self.column.value(row)));
        if self.is_reversed {
            rows.reverse();
        }
        rows
    }

    /// The row that keys act on: the first one, unless another one was chosen and is there.
    #[must_use]
    pub fn selected_in(&self, rows: &[&Row]) -> usize {
        let is_selected = |row: &&Row| Some((row.line.address, row.line.port)) == self.selected;
        rows.iter().position(is_selected).unwrap_or(0)
    }

    /// Does what a key says.
    pub fn on_key(&mut self, key: KeyEvent) {
        if key.kind == KeyEventKind::Release {
            return;
        }
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if has_control && key.code == KeyCode::Char('c') {
            self.is_over = true;
        } else if has_control {
            // Nothing of ours.
        } else if self.has_help {
            self.has_help = false;
        } else if self.is_typing {
            self.on_filter_key(key.code);
        } else if !self.on_common_key(key.code) {
            match self.screen {
                Screen::List => self.on_list_key(key.code),
                Screen::Subscriber(_) => self.on_subscriber_key(key.code),
            }
        }
    }

    fn on_filter_key(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => (self.is_typing, self.filter) = (false, String::new()),
            _ => {}
        }
    }

    /// True for a key of every screen.
    fn on_common_key(&mut self, key: KeyCode) -> bool {
        match key {
            KeyCode::Char('q') => self.is_over = true,
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char('p' | ' ') => {
                self.frozen = match self.frozen.take() {
                    Some(_) => None,
                    None => Some(Box::new(self.history.clone())),
                }
            }
            KeyCode::Tab => self.next_accelerator(),
            _ => return false,
        }
        true
    }

    fn next_accelerator(&mut self) {
        let History { names, name, .. } = &self.history;
        let at = names.iter().position(|other| Some(other) == name.as_ref());
        let next = at.map_or(0, |at| (at + 1) % names.len());
        self.wanted = names.get(next).cloned();
        self.frozen = None;
        self.screen = Screen::List;
    }

    fn on_list_key(&mut self, key: KeyCode) {
        let at = |column| Column::ALL.iter().position(|other| *other == column).unwrap_or(0);
        let count = Column::ALL.len();
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.select(-1),
            KeyCode::Down | KeyCode::Char('j') => self.select(1),
            KeyCode::PageUp => self.select(-PAGE),
            KeyCode::PageDown => self.select(PAGE),
            KeyCode::Home => self.select(isize::MIN),
            KeyCode::End => self.select(isize::MAX),
            KeyCode::Right | KeyCode::Char('s' | '>') => {
                self.column = Column::ALL[(at(self.column) + 1) % count];
            }
            KeyCode::Left | KeyCode::Char('<') => {
                self.column = Column::ALL[(at(self.column) + count - 1) % count];
            }
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char(digit @ '1'..='7') => {
                self.column = Column::ALL[digit as usize - '1' as usize];
            }
            KeyCode::Enter => {
                let rows = self.rows();
                let chosen = rows.get(self.selected_in(&rows)).map(|row| (row.line.address, row.line.port));
                if let Some((address, port)) = chosen {
                    self.selected = Some((address, port));
                    (self.screen, self.flows_above) = (Screen::Subscriber(address), 0);
                    // What stands still has nothing of this one.
                    self.frozen = None;
                }
            }
            _ => {}
        }
    }

    fn on_subscriber_key(&mut self, key: KeyCode) {
        let flows = self.history().detail.as_ref().map_or(0, |detail| detail.flows().count());
        let last = flows.saturating_sub(1);
        match key {
            KeyCode::Up | KeyCode::Char('k') => self.flows_above = self.flows_above.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.flows_above = (self.flows_above + 1).min(last),
            KeyCode::Home => self.flows_above = 0,
            KeyCode::End => self.flows_above = last,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => self.screen = Screen::List,
            _ => {}
        }
    }

    /// Moves the choice down by this number of rows.
    fn select(&mut self, further: isize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let to = self.selected_in(&rows).saturating_add_signed(further).min(last);
        self.selected = rows.get(to).map(|row| (row.line.address, row.line.port));
    }
}
