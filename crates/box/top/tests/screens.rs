//! The screens, as text, from samples of a real accelerator: `tests/recorded/*.json`. `CELLERATOR_WRITE_SCREENS=1`
//! writes `tests/screens/*.txt` anew. `make record-top` records samples.

use std::path::Path;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use top::{App, Column, Sample, Screen, draw};

const SMALL: (u16, u16) = (80, 24);
const WIDE: (u16, u16) = (160, 48);

fn folder(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Samples one after the other, as they were recorded.
fn recorded(name: &str) -> Vec<Sample> {
    let text = std::fs::read_to_string(folder("recorded").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A view that has seen these samples.
fn app(samples: Vec<Sample>) -> App {
    let mut app = App::new("this machine".to_owned(), true);
    samples.into_iter().for_each(|sample| app.add(sample));
    app
}

fn press(app: &mut App, keys: &[KeyCode]) {
    keys.iter().for_each(|key| app.on_key(KeyEvent::new(*key, KeyModifiers::NONE)));
}

fn drawn(app: &App, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, app)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width);
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned() + "\n"
    };
    buffer.content.chunks(width).map(line).collect()
}

/// Compares the screen with its file, and gives it.
fn check(name: &str, app: &App, size: (u16, u16)) -> String {
    let buffer = drawn(app, size);
    let text = text(&buffer);
    let path = folder("screens").join(format!("{name}.txt"));
    if std::env::var_os("CELLERATOR_WRITE_SCREENS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == wanted, "{}: wanted\n{wanted}\ngot\n{text}", path.display());
    text
}

/// The first words of the subscribers' lines.
fn addresses(app: &App) -> Vec<String> {
    app.rows().iter().map(|row| row.line.address.to_string()).collect()
}

#[test]
fn several_subscribers_in_a_small_and_a_wide_terminal() {
    let app = app(recorded("several.json"));
    let small = check("several-80x24", &app, SMALL);
    assert!(small.lines().last().unwrap().ends_with("q quit"), "the last line is cut");
    for address in addresses(&app) {
        assert!(small.contains(&address), "{address} is not shown");
    }
    check("several-160x48", &app, WIDE);
}

#[test]
fn without_colour_no_cell_has_one_and_the_text_is_the_same() {
    let mut app = app(recorded("several.json"));
    let coloured = drawn(&app, SMALL);
    assert!(coloured.content.iter().any(|cell| cell.fg != Color::Reset));
    app.has_colour = false;
    for screen in [Screen::List, Screen::Subscriber([10, 1, 0, 2].into())] {
        app.screen = screen;
        let plain = drawn(&app, SMALL);
        assert!(plain.content.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    }
    app.screen = Screen::List;
    assert_eq!(text(&drawn(&app, SMALL)), text(&coloured));
}

#[test]
fn without_an_accelerator_or_a_subscriber_that_is_said() {
    check("no-accelerator", &app(vec![Sample::default()]), SMALL);
    check("no-sample", &app(Vec::new()), SMALL);
    let mut samples = recorded("several.json");
    for sample in &mut samples {
        sample.subscribers.clear();
    }
    check("no-subscriber", &app(samples), SMALL);
    let trouble = Sample { trouble: Some("'radio' does not run".to_owned()), ..Sample::default() };
    assert!(text(&drawn(&app(vec![trouble]), SMALL)).contains("'radio' does not run"));
}

#[test]
fn one_subscriber() {
    let mut samples = recorded("several.json");
    for sample in &mut samples {
        sample.subscribers.truncate(1);
    }
    check("one-subscriber", &app(samples), SMALL);
}

#[test]
fn every_column_orders_the_list_both_ways() {
    let mut app = app(recorded("several.json"));
    assert!(app.rows().len() > 3);
    for (number, column) in ('1'..).zip(Column::ALL) {
        press(&mut app, &[KeyCode::Char(number)]);
        assert_eq!(app.column, column);
        check(&format!("ordered-by-{}", column.name().replace(' ', "-")), &app, SMALL);
        let one_way = addresses(&app);
        press(&mut app, &[KeyCode::Char('r')]);
        let other_way: Vec<String> = addresses(&app).into_iter().rev().collect();
        assert_eq!(one_way, other_way, "{column:?}");
        press(&mut app, &[KeyCode::Char('r')]);
    }
    // Arrows go round.
    press(&mut app, &[KeyCode::Right]);
    assert_eq!(app.column, Column::Address);
    press(&mut app, &[KeyCode::Left]);
    assert_eq!(app.column, Column::Flows);
    let flows: Vec<u32> = app.rows().iter().map(|row| row.line.flows).collect();
    assert!(flows.is_sorted_by(|a, b| a >= b), "{flows:?}");
}

#[test]
fn a_filter_shows_what_has_it_in_its_address() {
    let mut app = app(recorded("several.json"));
    let all = addresses(&app).len();
    press(&mut app, &[KeyCode::Char('/'), KeyCode::Char('.'), KeyCode::Char('3')]);
    assert!(app.is_typing);
    check("filter-being-typed", &app, SMALL);
    press(&mut app, &[KeyCode::Enter]);
    check("filtered", &app, SMALL);
    let shown = addresses(&app);
    assert!(!shown.is_empty() && shown.len() < all && shown.iter().all(|it| it.contains(".3")), "{shown:?}");
    press(&mut app, &[KeyCode::Char('/'), KeyCode::Char('x'), KeyCode::Enter]);
    check("filtered-to-nothing", &app, SMALL);
    press(&mut app, &[KeyCode::Esc]);
    assert_eq!(addresses(&app).len(), all);
}

#[test]
fn one_of_them_has_charts_flows_and_reasons() {
    let mut samples = recorded("opened.json");
    let client = samples.last().unwrap().client.unwrap();
    let mut app = App::new("box.example.net:9470".to_owned(), true);
    app.screen = Screen::Subscriber(client);
    let last = samples.pop().unwrap();
    samples.into_iter().for_each(|sample| app.add(sample));
    assert_eq!(app.focus().client, Some(client));
    app.add(last);
    let small = check("opened-80x24", &app, SMALL);
    assert!(
        small.contains("accelerated") && small.contains("policy: a rule of the policy says so"),
        "{small}"
    );
    assert!(small.lines().nth(3).unwrap().contains("idle 0 s"), "{small}");
    assert!(small.contains("-60 s") && small.contains("now"), "{small}");
    check("opened-160x48", &app, WIDE);
    press(&mut app, &[KeyCode::Esc]);
    assert_eq!(app.screen, Screen::List);
}

#[test]
fn enter_opens_the_chosen_one_and_the_first_sample_is_waited_for() {
    let mut app = app(recorded("several.json"));
    let second = app.rows()[1].line.address;
    press(&mut app, &[KeyCode::Down, KeyCode::Enter]);
    assert_eq!((app.screen, app.focus().client), (Screen::Subscriber(second), Some(second)));
    assert!(text(&drawn(&app, SMALL)).contains(&format!("{second}: waiting for the next sample")));
    // It stays chosen when the order changes.
    press(&mut app, &[KeyCode::Esc, KeyCode::Char('1')]);
    let rows = app.rows();
    assert_eq!(rows[app.selected_in(&rows)].line.address, second);
}

#[test]
fn a_pause_stands_still_and_goes_on_with_what_came() {
    let mut samples = recorded("several.json");
    let last = samples.pop().unwrap();
    let mut app = app(samples);
    press(&mut app, &[KeyCode::Char('p')]);
    let still = text(&drawn(&app, SMALL));
    assert!(still.contains("PAUSED"));
    app.add(last);
    assert_eq!(text(&drawn(&app, SMALL)), still);
    press(&mut app, &[KeyCode::Char('p')]);
    let on = text(&drawn(&app, SMALL));
    assert!(on != still && !on.contains("PAUSED"));
}

#[test]
fn help_fits_and_any_key_leaves_it() {
    let mut app = app(recorded("several.json"));
    press(&mut app, &[KeyCode::Char('?')]);
    let help = check("help", &app, SMALL);
    let wide = text(&drawn(&app, WIDE));
    assert_eq!(
        help.split_whitespace().collect::<Vec<_>>(),
        wide.split_whitespace().collect::<Vec<_>>(),
        "it is cut"
    );
    press(&mut app, &[KeyCode::Char('q')]);
    assert!(!app.has_help && !app.is_over);
    press(&mut app, &[KeyCode::Char('q')]);
    assert!(app.is_over);
}

#[test]
fn tiny_terminals_are_no_reason_to_panic() {
    let mut app = app(recorded("opened.json"));
    for size in [(1, 1), (20, 5), (300, 3), (5, 100), (80, 12)] {
        for screen in [Screen::List, Screen::Subscriber([10, 1, 0, 2].into())] {
            app.screen = screen;
            drawn(&app, size);
        }
    }
}
