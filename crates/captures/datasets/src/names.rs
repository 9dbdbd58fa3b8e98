//! Names of captures: which files are some, and which belong together.

/// Endings of captures.
const ENDINGS: [&str; 7] = ["pcap", "pcapng", "cap", "ntar", "dmp", "dump", "snoop"];

/// True for a name with one of the usual endings, maybe with `.gz` or `.zst` behind it, or a number as of
/// rotated files; hidden files are none.
#[must_use]
pub fn is_capture(name: &str) -> bool {
    !name.starts_with('.') && name.split('.').skip(1).any(is_ending)
}

fn is_ending(part: &str) -> bool {
    let part = part.trim_end_matches(|c: char| c.is_ascii_digit());
    ENDINGS.iter().any(|ending| part.eq_ignore_ascii_case(ending))
}

/// Part that the names of one rotating capture's files have in common.
///
/// Left out are the ending with all behind it (`eth0.pcap`, `eth0.pcap1`, `eth0.pcap2.gz`: `tcpdump -C`), a
/// time at the end (`eth0-2026-11-24_10:15:00.pcap`: `tcpdump -G`), a number and a time
/// (`eth0_00003_20261124101500.pcapng`: `dumpcap -b`). A name that is nothing but a time gives `capture`.
#[must_use]
pub fn series_key(name: &str) -> String {
    let mut from = 0;
    let mut end = name.len();
    for part in name.split('.') {
        if from > 0 && is_ending(part) {
            end = from - 1;
            break;
        }
        from += part.len() + 1;
    }
    let stem = &name[..end];
    let without_time = match time_at_end(stem) {
        Some(at) => &stem[..at],
        None => return stem.to_owned(),
    };
    let trimmed = without_time.trim_end_matches(SEPARATORS);
    // dumpcap counts its files, five digits, before the time.
    let counted = trimmed.rsplit_once('_').filter(|(_, n)| n.len() == 5 && is_digits(n));
    let key = counted.map_or(trimmed, |(before, _)| before);
    if key.is_empty() { "capture".to_owned() } else { key.to_owned() }
}

const SEPARATORS: [char; 3] = ['-', '_', '.'];

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Start of a time that the name ends in: the longest that is one.
fn time_at_end(stem: &str) -> Option<usize> {
    let starts = stem.char_indices().filter(|(at, _)| *at == 0 || stem[..*at].ends_with(SEPARATORS));
    starts.map(|(at, _)| at).find(|at| is_time(&stem[*at..]))
}

/// `YYYYMMDD`, maybe with `hh`, `mm`, `ss`, parts maybe separated; or seconds since 1970 in ten digits.
fn is_time(text: &str) -> bool {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let begins_and_ends_so = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    if !begins_and_ends_so(text.chars().next()) || !begins_and_ends_so(text.chars().next_back()) {
        return false;
    }
    if text.chars().any(|c| !c.is_ascii_digit() && !"-_.:T".contains(c)) {
        return false;
    }
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let part = |from: usize| digits.get(from..from + 2).and_then(|two| two.parse::<u32>().ok());
    let is_within = |from, most| part(from).is_none_or(|value| value <= most);
    let is_date = || {
        matches!(part(0), Some(19 | 20))
            && matches!(part(4), Some(1..=12))
            && matches!(part(6), Some(1..=31))
            && is_within(8, 24)
            && is_within(10, 59)
            && is_within(12, 60)
    };
    match digits.len() {
        8 | 12 | 14 => is_date(),
        10 => is_date() || (digits.len() == text.len() && digits.starts_with('1')),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_have_one_of_the_usual_endings() {
        for name in ["a.pcap", "a.pcap12", "a.PCAPNG.gz", "a.cap.zst", "a.b.dmp3", "a.snoop"] {
            assert!(is_capture(name), "{name}");
        }
        for name in [".a.pcap", "a.txt", "pcap", "a.gz", "a.pcapx"] {
            assert!(!is_capture(name), "{name}");
        }
    }

    #[test]
    fn rotated_files_have_one_key() {
        for name in [
            "eth0.pcap",
            "eth0.pcap1",
            "eth0.pcap02.gz",
            "eth0-2026-11-24_10:15:00.pcap",
            "eth0_20261124101500.pcap",
            "eth0.2026-11-24T10-15-00Z.pcap.zst",
            "eth0-1763980500.pcap",
            "eth0_00003_20261124101500.pcapng",
            "eth0-20261124.pcap",
            "eth0-20261124.pcap7",
        ] {
            assert_eq!(series_key(name), "eth0", "{name}");
        }
        assert_eq!(series_key("20261124-10.pcap"), "capture");
    }

    #[test]
    fn other_names_stay_apart() {
        for (name, key) in [
            ("host-10.0.0.1-20261124.pcap", "host-10.0.0.1"),
            ("cell-00012.pcap", "cell-00012"),
            ("run-20269924.pcap", "run-20269924"),
            ("subscriber-2841234567.pcap", "subscriber-2841234567"),
            ("a.b.pcap", "a.b"),
            ("a_00001.pcap", "a_00001"),
            ("ü-20261124.pcap", "ü"),
        ] {
            assert_eq!(series_key(name), key);
        }
    }
}
