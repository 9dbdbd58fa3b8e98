//! Packets per second through the link model.

#![allow(missing_docs)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use link::{Capacity, DelayModel, Harq, Link, LinkConfig, LinkDirection, LossModel, Preset, QueueLimit};
use units::{Bytes, Duration, Instant, Rate};

const PACKETS: u64 = 10_000;

/// Offers a full-size packet every 100 µs (120 Mbit/s) and takes out what is through.
fn run(config: &LinkConfig) -> u64 {
    let Ok(mut link) = Link::new(config, Instant::ZERO) else { return 0 };
    let mut delivered = 0;
    for index in 0..PACKETS {
        let now = Instant::from_micros(index * 100);
        let _ = link.enqueue(index, Bytes::new(1500), now);
        while let Some(delivery) = link.poll(now) {
            delivered += black_box(delivery.payload) & 1;
        }
    }
    delivered
}

fn links(c: &mut Criterion) {
    let base = LinkConfig {
        queue: QueueLimit::Packets(1000),
        delay: DelayModel::Fixed(Duration::from_millis(10)),
        keeps_log: false,
        ..LinkConfig::default()
    };
    let constant = LinkConfig { capacity: Capacity::Constant(Rate::from_mbps(100)), ..base.clone() };
    let logged = LinkConfig { keeps_log: true, ..constant.clone() };
    let radio = LinkConfig {
        harq: Some(Harq::default()),
        loss_after: LossModel::Bernoulli { ppm: 1000 },
        delay: DelayModel::Uniform { min: Duration::from_millis(10), max: Duration::from_millis(20) },
        ..constant.clone()
    };
    let Ok(trace) = Preset::Nr5g.generate(LinkDirection::Down, Duration::from_secs(10), 1) else { return };
    let traced = LinkConfig { capacity: Capacity::Trace(Arc::new(trace)), ..base };
    let mut group = c.benchmark_group("link");
    group.throughput(Throughput::Elements(PACKETS));
    for (name, config) in [
        ("constant rate", &constant),
        ("constant rate, logged", &logged),
        ("constant rate, HARQ, loss and jitter", &radio),
        ("5g-nr trace", &traced),
    ] {
        group.bench_function(name, |b| b.iter(|| run(black_box(config))));
    }
    group.finish();
}

fn generator(c: &mut Criterion) {
    c.bench_function("generate 60 s of 4g-lte", |b| {
        b.iter(|| Preset::Lte4g.generate(LinkDirection::Down, Duration::from_secs(60), black_box(1)));
    });
}

criterion_group!(benches, links, generator);
criterion_main!(benches);
