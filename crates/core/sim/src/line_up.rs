//! [`LineUp`]: a network written down as one would draw it.

use core::net::SocketAddr;

use units::{Bytes, Duration, Instant, Rate, SeqNum};

use crate::{
    Application, CheckConfig, EndpointConfig, FlowConfig, LogMode, MiddleboxUnderTest, Network,
    NetworkConfig, PathConfig, Pattern, RadioConfig, Role, SimError,
};

/// A network of one flow, from left to right:
///
/// ```
/// use engine::PassThrough;
/// use sim::{Application, LineUp};
/// use units::{Duration, Rate};
///
/// let ms = Duration::from_millis;
/// let mut network = LineUp::server(Application::bulk(100_000))
///     .wan(Rate::from_mbps(100), ms(5))
///     .radio(Rate::from_mbps(10), ms(20))
///     .client(Application::sink())
///     .around(PassThrough)?;
/// assert!(network.run()?.ended_at.as_millis() > 80);
/// # Ok::<(), sim::SimError>(())
/// ```
#[derive(Clone, Debug)]
pub struct LineUp {
    config: NetworkConfig,
    server: Application,
}

/// Bytes that a queue holds unless something else is said.
const QUEUE: Bytes = Bytes::from_kib(256);

impl LineUp {
    /// Begins with the server's program.
    #[must_use]
    pub fn server(app: Application) -> Self {
        let checks =
            CheckConfig { ends_by: Instant::ZERO + Duration::from_secs(600), ..CheckConfig::default() };
        let config = NetworkConfig { log: LogMode::Text, checks, ..NetworkConfig::default() };
        Self { config, server: app }
    }

    /// The wired segment, alike in both directions.
    #[must_use]
    pub fn wan(mut self, rate: Rate, delay: Duration) -> Self {
        self.config.wan_down = PathConfig::constant(rate, delay, QUEUE);
        self.config.wan_up = self.config.wan_down.clone();
        self
    }

    /// The radio link, with half of the rate towards the server.
    #[must_use]
    pub fn radio(mut self, rate: Rate, delay: Duration) -> Self {
        let down = PathConfig::constant(rate, delay, QUEUE);
        let up = PathConfig::constant(rate.mul_ratio(1, 2), delay, QUEUE);
        self.config.radios = vec![RadioConfig { down, up }];
        self
    }

    /// A base station that reports each `period` how the radio link is, `delay` late.
    #[must_use]
    pub fn feedback(mut self, period: Duration, delay: Duration) -> Self {
        let config = link::BaseStationConfig { period, delay, ..link::BaseStationConfig::default() };
        self.config.feedback = Some(config);
        self
    }

    /// Ends with the client's program.
    #[must_use]
    pub fn client(mut self, app: Application) -> Self {
        self.config.flows = vec![Self::flow(self.server.clone(), app)];
        self
    }

    /// One flow with today's usual hosts, numbers that wrap soon, and content of its own each way.
    #[must_use]
    pub fn flow(server: Application, client: Application) -> FlowConfig {
        let (s, c): (SocketAddr, SocketAddr) = (([10, 9, 0, 1], 80).into(), ([10, 0, 0, 2], 40_000).into());
        let mut server = EndpointConfig::new(s, c, Role::Listens, server);
        server.isn = SeqNum::new(0xffff_ff00);
        let mut client = EndpointConfig::new(c, s, Role::Connects(Instant::ZERO), client);
        (client.writes, client.expects) = (Pattern::new(2), Pattern::new(1));
        FlowConfig { server, client, radio: 0 }
    }

    /// Applies a change to anything in it.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut NetworkConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Everything that was said.
    #[must_use]
    pub fn config(&self) -> &NetworkConfig {
        &self.config
    }

    /// The network, with this between the two segments.
    ///
    /// # Errors
    /// A link's settings are out of range.
    pub fn around<M: MiddleboxUnderTest>(&self, middlebox: M) -> Result<Network<M>, SimError> {
        Network::new(&self.config, middlebox)
    }
}
