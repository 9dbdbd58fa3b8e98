//! Reading a script's text.

use engine::Port;
use units::Duration;
use wire::TcpFlags;

use super::packet::{OptionsLine, PacketLine, Wanted, Window};
use super::{Action, At, Line, Match, Script, ScriptFailure};

pub(super) fn script(file: &str, text: &str) -> Result<Script, ScriptFailure> {
    let mut script = Script { file: file.to_owned(), settings: Vec::new(), lines: Vec::new() };
    for (index, raw) in text.lines().enumerate() {
        let content = raw.split("//").next().unwrap_or_default().trim();
        if content.is_empty() {
            continue;
        }
        let read = line(content, index + 1, &mut script);
        read.map_err(|problem| script.failure(index + 1, raw.trim(), problem))?;
    }
    Ok(script)
}

fn line(text: &str, number: usize, script: &mut Script) -> Result<(), String> {
    let (first, rest) = word(text);
    if first == "config" {
        let (key, value) = word(rest);
        script.settings.push((key.to_owned(), value.to_owned()));
        return Ok(());
    }
    let at = time(first)?;
    let (verb, rest) = word(rest);
    let mut push = |action, at| {
        script.lines.push(Line { number, text: text.to_owned(), at, action });
    };
    match verb {
        "client>" => push(Action::Inject(Port::Mobile, packet(rest)?), at),
        "server>" => push(Action::Inject(Port::Wired, packet(rest)?), at),
        ">client" => push(expectation(Port::Mobile, rest)?, at),
        ">server" => push(expectation(Port::Wired, rest)?, at),
        "nothing" => push(Action::Nothing(None), at),
        "count" => {
            let (name, value) = word(rest);
            push(Action::Count(name.to_owned(), number_of(value)?), at);
        }
        "establish" => {
            let mut at = at;
            for action in establish(rest)? {
                push(action, at);
                at = At::After(Duration::ZERO);
            }
        }
        other => {
            return Err(format!(
                "`{other}` is none of client> server> >client >server nothing count establish"
            ));
        }
    }
    Ok(())
}

/// The first word and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    match text.find(char::is_whitespace) {
        Some(end) => (&text[..end], text[end..].trim_start()),
        None => (text, ""),
    }
}

fn number_of<T: core::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is not a number that fits here"))
}

/// Seconds with up to six decimals.
fn time(text: &str) -> Result<At, String> {
    let (is_relative, text) = text.strip_prefix('+').map_or((false, text), |rest| (true, rest));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let micros = number_of::<u32>(&format!("{:0<6}", part.get(..6).unwrap_or(part)))?;
    let seconds = Duration::from_secs(u64::from(number_of::<u32>(whole)?));
    let time = seconds + Duration::from_micros(u64::from(micros));
    Ok(if is_relative { At::After(time) } else { At::Absolute(time) })
}

fn expectation(to: Port, text: &str) -> Result<Action, String> {
    let (first, rest) = word(text);
    Ok(match first {
        "identical" => Action::Identical(to),
        "nothing" => Action::Nothing(Some(to)),
        "drain" => Action::Drain(to),
        ".." => Action::Expect(to, Match::Some, packet(rest)?),
        "none" => Action::Expect(to, Match::None, packet(rest)?),
        _ => Action::Expect(to, Match::Next, packet(text)?),
    })
}

/// The usual handshake: client TSval 1000 and 1001, server TSval 5000, window scales 7.
fn establish(text: &str) -> Result<Vec<Action>, String> {
    let (mut sack, mut ts, mut scale, mut mss, mut window) = (true, true, true, 1_460, 500);
    let mut rest = text;
    while !rest.is_empty() {
        let (key, after) = word(rest);
        rest = after;
        match key {
            "nosack" => sack = false,
            "nots" => ts = false,
            "noscale" => scale = false,
            "mss" | "win" => {
                let (value, after) = word(rest);
                rest = after;
                let place: &mut u16 = if key == "mss" { &mut mss } else { &mut window };
                *place = number_of(value)?;
            }
            other => return Err(format!("`{other}` is none of nosack nots noscale mss win")),
        }
    }
    let syn = |ts_text: &str| {
        let mut parts = vec![format!("mss {mss}")];
        parts.extend(sack.then(|| "sackOK".to_owned()));
        parts.extend(ts.then(|| ts_text.to_owned()));
        parts.extend(scale.then(|| "wscale 7".to_owned()));
        parts.join(",")
    };
    let third = if ts { "<TS val 1001 ecr 5000>" } else { "<>" };
    Ok(vec![
        Action::Inject(Port::Mobile, packet(&format!("S 0 win 65535 <{}>", syn("TS val 1000 ecr 0")))?),
        Action::Identical(Port::Wired),
        Action::Inject(
            Port::Wired,
            packet(&format!("S. 0 ack 1 win 65535 <{}>", syn("TS val 5000 ecr 1000")))?,
        ),
        Action::Identical(Port::Mobile),
        Action::Inject(Port::Mobile, packet(&format!(". 1 ack 1 win {window} {third}"))?),
        Action::Expect(Port::Wired, Match::Next, packet(&format!(". 1 ack 1 {third}"))?),
    ])
}

fn packet(text: &str) -> Result<PacketLine, String> {
    let (before, options, after) = match (text.find('<'), text.rfind('>')) {
        (Some(open), Some(close)) if open < close => {
            (&text[..open], Some(options(&text[open + 1..close])?), &text[close + 1..])
        }
        _ => (text, None, ""),
    };
    let (flag_text, rest) = word(before);
    let (seq_text, rest) = word(rest);
    let (seq, len) = numbers(seq_text)?;
    let mut line = PacketLine {
        flags: flags(flag_text)?,
        seq,
        len,
        ack: None,
        window: Window::Any,
        urgent: 0,
        options,
        is_bad: false,
        is_fragment: false,
        ecn: None,
        fill: None,
        gso: None,
    };
    let words: Vec<&str> = rest.split_whitespace().chain(after.split_whitespace()).collect();
    let mut words = words.into_iter();
    while let Some(key) = words.next() {
        let mut value = || words.next().ok_or(format!("`{key}` needs a number"));
        match key {
            "ack" => line.ack = wanted(value()?)?,
            "win" => line.window = window(value()?)?,
            "urg" => line.urgent = number_of(value()?)?,
            "fill" => line.fill = Some(number_of(value()?)?),
            "gso" => line.gso = Some(number_of(value()?)?),
            "badsum" => line.is_bad = true,
            "fragment" => line.is_fragment = true,
            "ce" => line.ecn = Some(3),
            "ect0" => line.ecn = Some(2),
            "ect1" => line.ecn = Some(1),
            "notect" => line.ecn = Some(0),
            other => {
                return Err(format!(
                    "`{other}` is none of ack win urg fill gso badsum fragment ce ect0 ect1 notect"
                ));
            }
        }
    }
    Ok(line)
}

fn flags(text: &str) -> Result<TcpFlags, String> {
    text.chars().try_fold(TcpFlags::NONE, |flags, letter| {
        Ok(flags
            | match letter {
                'F' => TcpFlags::FIN,
                'S' => TcpFlags::SYN,
                'R' => TcpFlags::RST,
                'P' => TcpFlags::PSH,
                '.' => TcpFlags::ACK,
                'U' => TcpFlags::URG,
                'E' => TcpFlags::ECE,
                'W' => TcpFlags::CWR,
                'e' => TcpFlags::AE,
                _ => return Err(format!("`{text}` are no flags")),
            })
    })
}

/// `7`, `*`, `7:107(100)` or `*(100)`.
fn numbers(text: &str) -> Result<(Wanted, u32), String> {
    let (range, len) = match text.split_once('(') {
        Some((range, len)) => (range, u32::from(number_of::<u16>(len.trim_end_matches(')'))?)),
        None => (text, 0),
    };
    let (start, end) = range.split_once(':').map_or((range, None), |(start, end)| (start, Some(end)));
    let start = wanted(start)?;
    if let Some((start, end)) = start.zip(end)
        && start.wrapping_add(len) != number_of::<u32>(end)?
    {
        return Err(format!("`{text}`: the end is not start plus length"));
    }
    Ok((start, len))
}

fn wanted(text: &str) -> Result<Wanted, String> {
    if text == "*" { Ok(None) } else { number_of(text).map(Some) }
}

fn window(text: &str) -> Result<Window, String> {
    Ok(match (text.strip_prefix(">="), text.strip_prefix("<=")) {
        (Some(least), _) => Window::AtLeast(number_of(least)?),
        (_, Some(most)) => Window::AtMost(number_of(most)?),
        _ if text == "*" => Window::Any,
        _ => Window::Is(number_of(text)?),
    })
}

fn options(text: &str) -> Result<OptionsLine, String> {
    let mut options = OptionsLine::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, rest) = word(part);
        match key {
            "mss" => options.mss = Some(number_of(rest)?),
            "wscale" => options.scale = Some(number_of(rest)?),
            "sackOK" => options.sack_permitted = true,
            "TS" => {
                let parts: Vec<&str> = rest.split_whitespace().collect();
                let ["val", value, "ecr", echo] = parts[..] else {
                    return Err(format!("`{part}` should read TS val N ecr N"));
                };
                options.timestamps = Some((wanted(value)?, wanted(echo)?));
            }
            "sack" => {
                for block in rest.split_whitespace() {
                    let (start, end) = block.split_once(':').ok_or(format!("`{block}` is no block A:B"))?;
                    options.sack.push((number_of(start)?, number_of(end)?));
                }
            }
            "acc" => {
                let counters = rest.split_whitespace().map(number_of).collect::<Result<Vec<u32>, _>>()?;
                let counters = counters.try_into().map_err(|_| format!("`{part}` should read acc N N N"))?;
                options.counters = Some(counters);
            }
            "opt" => {
                let digits: Vec<char> = rest.chars().collect();
                for pair in digits.chunks(2) {
                    let hex: String = pair.iter().collect();
                    options
                        .raw
                        .push(u8::from_str_radix(&hex, 16).map_err(|_| format!("`{rest}` is not hex"))?);
                }
            }
            other => return Err(format!("`{other}` is none of mss wscale sackOK TS sack acc opt")),
        }
    }
    Ok(options)
}
