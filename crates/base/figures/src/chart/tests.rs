use super::*;

fn chart() -> Chart {
    let line = |name: &str, colour, points: &[(f64, f64)]| {
        Series::new(name, Ink::Colour(colour), Mark::Dotted, points.iter().copied().map(Point::from))
    };
    let title = "a title of many words that say what is seen & that do not fit into one line of a telephone";
    Chart {
        made_by: "cellerator x --y".to_owned(),
        note: "1 < 2".to_owned(),
        ..Chart::new(title, Axis::places("loss, %", ["0", "0.01", "3"]))
    }
    .panel(
        Axis::linear("Mbit/s"),
        vec![
            line("direct <CUBIC>", 1, &[(1.0, 47.0), (2.0, 40.0), (3.0, 0.7)]),
            line("ours", 0, &[(1.0, 47.0)]),
        ],
    )
    .panel(Axis::log("ms"), vec![line("direct <CUBIC>", 1, &[(1.0, 1.0)]), line("ours", 0, &[(1.0, 9e5)])])
}

#[test]
fn a_file_stands_alone_and_is_wrapped_to_its_width() {
    let (wide, narrow) = (chart().file(Width::Wide), chart().file(Width::Narrow));
    for svg in [&wide, &narrow] {
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(svg.contains("prefers-color-scheme: dark") && svg.contains("Made by: cellerator x --y"));
        assert!(
            svg.contains("direct &lt;CUBIC&gt;")
                && svg.contains("1 &lt; 2")
                && svg.contains("seen &amp; that")
        );
    }
    assert_eq!((wide.matches("class=\"title\"").count(), narrow.matches("class=\"title\"").count()), (2, 3));
}

#[test]
fn a_page_has_both_widths_once_the_data_and_no_style_of_its_own() {
    let figure = chart().figure().into_string();
    assert!(figure.contains("chart wide") && figure.contains("chart narrow") && !figure.contains("<style>"));
    assert_eq!((figure.matches("<metadata>").count(), figure.matches("<figcaption>").count()), (1, 1));
    assert_eq!(chart().half_figure().into_string().matches("<svg").count(), 1);
}

#[test]
fn panels_with_the_same_series_have_one_legend_and_each_its_axis() {
    let svg = chart().half().into_string();
    assert_eq!(svg.matches(">ours<").count(), 1);
    assert!(svg.contains(">Mbit/s<") && svg.contains(">ms, logarithmic<") && svg.contains(">loss, %<"));
    assert_eq!(svg.matches(">0.01<").count(), 2, "each panel has its places");
}

#[test]
fn the_data_is_beside_it() {
    let json: serde_json::Value = serde_json::from_str(&chart().json()).unwrap();
    assert_eq!(json["x"]["spread"]["places"], serde_json::json!(["0", "0.01", "3"]));
    let series = |panel: usize, number: usize| &json["panels"][panel]["series"][number];
    assert_eq!(
        (&series(1, 1)["x"], &series(1, 1)["y"]),
        (&serde_json::json!([1.0]), &serde_json::json!([9e5]))
    );
    assert_eq!(series(0, 0)["x"], serde_json::json!({ "from": 1.0, "step": 1.0 }));
    assert_eq!(series(0, 0)["ink"], serde_json::json!({ "colour": 1 }));
    let points = [Point::within(1.0, f64::NAN, 0.123_456_789, f64::INFINITY), Point::new(2.0, 0.0)];
    let odd = serde_json::to_value(Series::new("", Ink::Bad, Mark::Band, points)).unwrap();
    assert_eq!(odd["y"], serde_json::json!([null, 0.0]));
    assert_eq!(
        (&odd["low"], &odd["high"]),
        (&serde_json::json!([0.123_46, null]), &serde_json::json!([null, null]))
    );
}

#[test]
fn bins_without_a_value_break_a_line_and_a_point_alone_is_seen() {
    let values = [Some(1.0), None, Some(2.0), Some(3.0), None];
    let drawn = |mark| {
        let series = Series::of_bins("", Ink::Colour(0), mark, 1.0, values);
        Chart::new("", Axis::exact("s")).panel(Axis::linear(""), vec![series]).half().into_string()
    };
    let line = drawn(Mark::Line);
    let path = line.split("class=\"line\" d=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    assert_eq!(path.matches('M').count(), 2, "{path}");
    assert!(line.contains("class=\"dot\""), "the first bin stands alone");
    let steps = drawn(Mark::Ground);
    assert_eq!(
        steps.split("class=\"ground\" d=\"").nth(1).unwrap().split('"').next().unwrap().matches('Z').count(),
        2
    );
}

#[test]
fn names_beside_dots_keep_apart() {
    let dot = |name: &str, at| Series::new(name, Ink::Colour(0), Mark::Named, [at]);
    let at = Point::new(10.0, 0.5);
    let chart =
        Chart::new("", Axis::log("ms")).panel(Axis::linear("%"), vec![dot("first", at), dot("second", at)]);
    let svg = chart.half().into_string();
    let places: Vec<&str> =
        svg.split("class=\"beside\" ").skip(1).filter_map(|rest| rest.split('>').next()).collect();
    assert!(places.len() == 2 && places[0] != places[1], "{places:?}");
    assert!(!svg.contains("class=\"name\""), "a name beside a dot needs no legend");
}

#[test]
fn bars_of_a_place_stand_beside_each_other() {
    let bar = |value| Series::new("", Ink::Colour(0), Mark::Bars, [Point::new(1.0, value)]);
    let chart = Chart::new("", Axis::places("", ["a"])).panel(Axis::linear(""), vec![bar(1.0), bar(2.0)]);
    let svg = chart.half().into_string();
    let lefts: Vec<&str> =
        svg.split("class=\"bar\" d=\"M").skip(1).filter_map(|rest| rest.split(' ').next()).collect();
    assert!(lefts.len() == 2 && lefts[0] != lefts[1], "{lefts:?}");
}

/// Texts of a class, and their levels.
fn texts(svg: &str, class: &str) -> Vec<(String, f64)> {
    let begin = format!("<text class=\"{class}\" ");
    let text = |part: &str| {
        let said = part.split_once('>').unwrap().1.split('<').next().unwrap();
        let level = part.split("y=\"").nth(1).unwrap().split('"').next().unwrap();
        (said.to_owned(), level.parse().unwrap())
    };
    svg.split(&begin).skip(1).map(text).collect()
}

#[test]
fn names_at_the_ends_of_lines_keep_apart_and_are_in_no_legend() {
    let line = |name: &str, last: f64| {
        Series::new(
            name,
            Ink::Colour(0),
            Mark::Line,
            [0.0, 1.0].map(|x| Point::new(x, x * last)).into_iter().chain([Point::new(2.0, f64::NAN)]),
        )
    };
    let ground = Series::new("ground", Ink::Limit, Mark::Ground, [0.0, 1.0].map(|x| Point::new(x, 1.0)));
    let lines = vec![ground, line("low", 5.0), line("middle", 5.01), line("high", 9.0)];
    let chart = Chart { is_named_at_ends: true, ..Chart::new("", Axis::exact("s")) };
    let chart = chart.panel(Axis::linear("ms"), lines);
    let svg = chart.half().into_string();
    let [ground, high, middle, low] = texts(&svg, "name").try_into().unwrap();
    assert_eq!(
        [&ground.0, &high.0, &middle.0, &low.0].map(String::as_str),
        ["ground", "high", "middle", "low"],
        "from the top"
    );
    assert!((low.1 - middle.1 - 15.0).abs() < 0.2 && middle.1 - high.1 > 20.0, "{svg}");
    assert!(chart.json().contains("\"is_named_at_ends\":true"));
}

#[test]
fn places_of_an_axis_that_goes_up_are_named_from_the_top_in_lines() {
    let dots = Series::new("", Ink::Colour(0), Mark::Dots, [Point::new(1.0, 1.0), Point::new(2.0, 2.0)]);
    let chart = Chart::new("", Axis::linear("ms"));
    let svg = chart.panel(Axis::places("what", ["page, whole", "byte"]), vec![dots]).half().into_string();
    let said = texts(&svg, "tick");
    let [page, whole, byte] = &said[..3] else { panic!("{said:?}") };
    assert_eq!([&page.0, &whole.0, &byte.0].map(String::as_str), ["page", "whole", "byte"]);
    assert!(page.1 < whole.1 && whole.1 < byte.1, "{said:?}");
}
