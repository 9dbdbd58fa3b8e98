//! The hosts of a random run.

use core::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use units::{Bytes, Duration, Instant, SeqNum, WindowScale};

use crate::{
    Application, EndpointConfig, FlowConfig, NetworkConfig, Pattern, PlannedWrite, Random, ReceiveWindow,
    Role,
};

/// The server's address and that of a client's flow.
fn addresses(number: u16, client: u8, is_v4: bool) -> (SocketAddr, SocketAddr) {
    let port = 40_000 + number;
    if is_v4 {
        ((Ipv4Addr::new(10, 9, 0, 1), 80).into(), (Ipv4Addr::new(10, 0, 0, 2 + client), port).into())
    } else {
        let client = Ipv6Addr::new(0xfd00, 0, 0, client.into(), 0, 0, 0, 2);
        ((Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 1), 80).into(), (client, port).into())
    }
}

/// Time after the network's own start at which connections begin.
pub(super) fn start_clocks(network: &mut NetworkConfig) {
    let start = network.starts_at;
    for flow in &mut network.flows {
        if let Role::Connects(at) = &mut flow.client.role {
            *at = start + at.saturating_since(Instant::ZERO);
        }
    }
}

/// Draws what both applications do; true when the flow ends by RST.
fn applications(random: &mut Random, budget: u64) -> (Application, Application, bool, bool) {
    let size = random.spread(1, budget.max(2));
    let request = random.spread(1, 3_000);
    let slow = |random: &mut Random, app: Application| {
        let bytes = (size / random.within(3, 40)).max(500);
        app.reading_slowly(bytes, Duration::from_millis(random.spread(10, 700)))
    };
    match random.below(13) {
        0 | 1 => (Application::bulk(size), Application::sink(), false, false),
        2 => (Application::server(request, size), Application::client(request), false, false),
        3 => (Application::server(request, size), Application::client(request).half_closing(), false, false),
        4 => (Application::bulk(size), slow(random, Application::sink()), false, false),
        5 => (
            Application::server(request, size),
            slow(random, Application::client(request).half_closing()),
            false,
            false,
        ),
        6 => {
            // Both directions at once, the client closing when it likes.
            (Application::bulk(size), Application::bulk(random.spread(1, budget)), false, false)
        }
        7 => {
            let rounds = random.within(2, 8);
            let answer = (size / rounds).max(1);
            let write = |after, pause, send| PlannedWrite {
                after_reading: after,
                pause: Duration::from_millis(pause),
                send,
            };
            let pause = random.within(0, 900);
            let server = (1..=rounds).map(|i| write(i * request, 5, answer)).collect();
            let client =
                (0..rounds).map(|i| write(i * answer, if i == 0 { 0 } else { pause }, request)).collect();
            let server = Application { writes: server, ..Application::sink() };
            let client = Application { writes: client, ..Application::bulk(0) };
            (server, client, false, false)
        }
        8 => (
            Application::bulk(size),
            Application::sink().aborting_after(size / random.within(1, 5)),
            true,
            false,
        ),
        9 => {
            // The server aborts when it hears from the client, in the middle of its answer.
            let hello =
                PlannedWrite { after_reading: size / random.within(2, 5), pause: Duration::ZERO, send: 100 };
            let client = Application { writes: vec![hello], ..Application::client(0) };
            (Application::bulk(size).aborting_after(100), client, true, false)
        }
        10 => {
            // Written at a pace of its own.
            let rate = units::Rate::from_kbps(random.spread(50, 2_000));
            let some = (size / 8).max(1);
            (Application::bulk(some).writing_at(rate), Application::sink(), false, false)
        }
        11 => {
            // The server, or the client, aborts once that much has been acknowledged.
            let some = (size / random.within(1, 5)).max(1);
            if random.one_in(2) {
                (Application::bulk(size).aborting_after_sending(some), Application::sink(), true, false)
            } else {
                (Application::sink(), Application::bulk(size).aborting_after_sending(some), true, false)
            }
        }
        _ if random.one_in(4) => (Application::bulk(size), Application::sink(), true, true),
        _ => (Application::sink(), Application::bulk(size), false, false),
    }
}

fn window(random: &mut Random) -> (ReceiveWindow, Option<WindowScale>) {
    let most = if random.one_in(4) { 14 } else { 9 };
    let scale = (!random.one_in(6)).then(|| WindowScale::new(random.within(0, most) as u8));
    let most = scale.unwrap_or_default().window(65_535);
    // A host picks a scale whose units its buffer holds several of.
    let least = (4u64 << scale.unwrap_or_default().shift()).max(2_048);
    let window = if random.one_in(3) {
        ReceiveWindow::Growing { initial: Bytes::from_kib(64), max: Bytes::new(u64::from(most).min(6 << 20)) }
    } else {
        ReceiveWindow::Fixed(Bytes::new(random.spread(least, u64::from(most).min(1_000_000).max(least))))
    };
    (window, scale)
}

fn host(random: &mut Random, mut config: EndpointConfig) -> EndpointConfig {
    let header = if config.local.is_ipv4() { 40 } else { 60 };
    config.isn = SeqNum::new(if random.one_in(2) {
        random.word() as u32
    } else {
        0u32.wrapping_sub(random.spread(1, 200_000) as u32)
    });
    let mtu = random.pick(&[1_500, 1_500, 1_500, 1_400, 1_280, 700]).unwrap_or(1_500);
    config.mss = mtu - header;
    (config.window, config.window_scale) = window(random);
    config.sack = !random.one_in(6);
    config.timestamps = (!random.one_in(5))
        .then(|| if random.one_in(2) { random.word() as u32 } else { 0u32.wrapping_sub(2_000) });
    if random.one_in(10) {
        config.syn_options = vec![222, 4, 7, 7];
    }
    config
}

/// A flow of a client, and whether one of its hosts breaks it off.
pub(super) fn flow(
    random: &mut Random,
    (number, client_number): (u16, u8),
    budget: u64,
    is_v4: bool,
) -> (FlowConfig, bool) {
    let (s, c) = addresses(number, client_number, is_v4);
    let (server_app, client_app, breaks, refuses) = applications(random, budget);
    let begins = Instant::from_millis(if number == 0 { 0 } else { random.within(0, 500) });
    let role = if refuses { Role::Refuses } else { Role::Listens };
    let mut server = host(random, EndpointConfig::new(s, c, role, server_app));
    let mut client = host(random, EndpointConfig::new(c, s, Role::Connects(begins), client_app));
    let (down, up) = (Pattern::new(random.word()), Pattern::new(random.word()));
    (server.writes, server.expects, client.writes, client.expects) = (down, up, up, down);
    (FlowConfig { server, client, radio: usize::from(client_number) }, breaks)
}
