//! An order for a TCP connection within an HTTP request: proxies of port 80 let nothing else through.
//!
//! ```text
//! GET /cellerator/<the order's bytes in hexadecimal digits> HTTP/1.1
//! Host: …
//! ```

/// Path of the orders.
const PATH: &str = "/cellerator/";
/// Longest request that is read.
pub const REQUEST_MAX: usize = 4_096;
const END: &[u8] = b"\r\n\r\n";

/// State of the beginning of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HttpOrder<'a> {
    /// More has to come.
    Unfinished,
    /// A whole request; the digits of its order, and the bytes of all of it.
    Whole {
        /// Digits, hexadecimal.
        digits: &'a [u8],
        /// Length of the request.
        len: usize,
    },
    /// No request, or not for us.
    Other,
}

/// The request with an order, as `host`.
#[must_use]
pub fn http_request(order: &[u8], host: &str) -> Vec<u8> {
    let digits = to_digits(order);
    format!("GET {PATH}{digits} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nConnection: close\r\n\r\n")
        .into_bytes()
}

/// Looks for an order at the beginning of a connection. A proxy may have written the whole address there.
#[must_use]
pub fn http_order(bytes: &[u8]) -> HttpOrder<'_> {
    let begin = b"GET ";
    let common = begin.len().min(bytes.len());
    if bytes.get(..common) != begin.get(..common) {
        return HttpOrder::Other;
    }
    let Some(end) = find(bytes, END) else {
        return if bytes.len() < REQUEST_MAX { HttpOrder::Unfinished } else { HttpOrder::Other };
    };
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let target = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let digits = find(target, PATH.as_bytes()).and_then(|at| target.get(at + PATH.len()..));
    match digits {
        Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => {
            HttpOrder::Whole { digits, len: end + END.len() }
        }
        _ => HttpOrder::Other,
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

/// Two digits for each byte.
#[must_use]
pub fn to_digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of an even number of digits.
#[must_use]
pub fn from_digits(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = digits.as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8));
    if rest.is_empty() { bytes.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_order_is_read_as_written(order in prop::collection::vec(any::<u8>(), 0..80)) {
            let request = http_request(&order, "192.0.2.1:80");
            let read = http_order(&request);
            let HttpOrder::Whole { digits, len } = read else { panic!("{read:?}") };
            prop_assert_eq!((from_digits(digits), len), (Some(order), request.len()));
            for cut in 0..request.len() {
                prop_assert_eq!(http_order(&request[..cut]), HttpOrder::Unfinished);
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = http_order(&bytes);
            let _ = http_order(&[b"GET /cellerator/", &bytes[..]].concat());
            let _ = from_digits(&bytes);
        }
    }

    #[test]
    fn what_a_proxy_makes_of_it_is_read_and_other_requests_are_not() {
        let of = |text: &str| match http_order(text.as_bytes()) {
            HttpOrder::Whole { digits, .. } => from_digits(digits),
            _ => None,
        };
        assert_eq!(of("GET http://h:80/cellerator/0aff HTTP/1.0\r\nVia: p\r\n\r\n"), Some(vec![10, 255]));
        assert_eq!(of("GET / HTTP/1.1\r\n\r\n"), None);
        assert_eq!(of("GET /cellerator/zz HTTP/1.1\r\n\r\n"), None);
        assert_eq!(http_order(&[b'G'; 9]), HttpOrder::Other);
        assert_eq!(http_order(&[b"GET ".to_vec(), vec![b'a'; REQUEST_MAX]].concat()), HttpOrder::Other);
    }
}
