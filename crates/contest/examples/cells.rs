//! Cells of `--part beside`, quickly.
use contest::*;
use std::sync::atomic::AtomicBool;
use units::Duration;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let get = |name: &str, default: &str| {
        args.iter().position(|a| a == name).map_or(default.to_owned(), |i| args[i + 1].clone())
    };
    let seeds: Vec<u64> = (1..=get("--seeds", "3").parse().unwrap()).collect();
    let length = Duration::from_secs(get("--len", "60").parse().unwrap());
    let traces = get("--traces", "4g-lte,4g-lte-drive");
    let traces = traces
        .split(',')
        .map(|t| TraceSource::open_all(t, Duration::ZERO, length, &seeds).unwrap())
        .collect();
    let parts = get("--beside", "cubic,bbr,quic,quic-bbr");
    let parts = parts.split(',').map(|b| format!("beside={b}").parse().unwrap()).collect();
    let buffers = get("--buffer", "4MB,2bdp");
    let buffers = buffers.split(',').map(|b| b.parse().unwrap()).collect();
    let schemes = get("--schemes", "direct:cubic,accel:adaptive");
    let schemes = schemes.split(',').map(|s| s.parse().unwrap()).collect();
    let mut path = PathSettings::default();
    path.wan_rtt = Duration::from_millis(get("--wan", "20").parse().unwrap());
    let settings = Settings { length, buffers, seeds, threads: 2, parts, late: vec![], path };
    let contest = Contest { settings, traces, schemes };
    let document = contest.hold(&|_| {}, &AtomicBool::new(false)).unwrap();
    let mut runs = document.beside.clone();
    runs.sort_by(|a, b| {
        (&a.trace, &a.buffer, &a.beside, &a.scheme).cmp(&(&b.trace, &b.buffer, &b.beside, &b.scheme))
    });
    for group in runs.chunk_by(|a, b| {
        (&a.trace, &a.buffer, &a.beside, &a.scheme) == (&b.trace, &b.buffer, &b.beside, &b.scheme)
    }) {
        let n = group.len() as f64;
        let mean = |f: &dyn Fn(&BesideRun) -> f64| group.iter().map(f).sum::<f64>() / n;
        let r = &group[0];
        for p in group.iter().flat_map(|r| &r.problems) {
            println!("PROBLEM {p}");
        }
        println!(
            "{:14} {:6} {:9} {:34} own {:6.2} other {:6.2} util {:5.1} q95 {:6.0} loss {:5.2} ping50 {:5.0} ping95 {:6.0}",
            r.trace,
            r.buffer,
            r.beside,
            r.scheme,
            mean(&|r| r.own_mbps),
            mean(&|r| r.beside_mbps.iter().sum::<f64>()),
            mean(&|r| r.utilisation * 100.0),
            mean(&|r| r.queue_ms.p95),
            mean(&|r| r.loss * 100.0),
            mean(&|r| r.ping_ms.p50),
            mean(&|r| r.ping_ms.p95)
        );
    }
}
