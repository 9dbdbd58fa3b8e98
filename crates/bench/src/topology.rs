//! [`Network`]: `client — veth — box — veth — server` in three namespaces.

use std::net::{IpAddr, Ipv4Addr};

use io::netlink::{Cidr, Family, Netlink, Route, VethEnd};
use io::{Namespace, sysctl};

use crate::BenchError;

/// The box's interface towards the server.
pub(crate) const WIRED: &str = "w0";
/// The box's interface towards the client.
pub(crate) const MOBILE: &str = "m0";

const SERVER_NET: u8 = 2;
const CLIENT_NET: u8 = 1;

/// Last byte of the box's addresses, and of the others'.
const BOX: u8 = 1;
const HOST: u8 = 2;

/// The server's address.
pub(crate) const SERVER: IpAddr = address(SERVER_NET, HOST);

const fn address(net: u8, last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, net, 0, last))
}

/// The three namespaces; their names are removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Network {
    pub client: Namespace,
    pub middle: Namespace,
    pub server: Namespace,
    _names: Names,
}

/// Names to take away.
#[derive(Debug, Default)]
struct Names(Vec<String>);

impl Drop for Names {
    fn drop(&mut self) {
        for name in &self.0 {
            // A name already taken away by someone else is gone as wanted.
            drop(Namespace::remove(name));
        }
    }
}

impl Network {
    /// The names of the namespaces that this process makes: client, box, server.
    pub fn names() -> [String; 3] {
        ["client", "box", "server"].map(|role| format!("cbench-{}-{role}", std::process::id()))
    }

    /// Makes the namespaces, joins them, and has the box forward. Offloads stay as the kernel sets them.
    pub fn create() -> Result<Self, BenchError> {
        let mut names = Names::default();
        let mut create = |name: &String| {
            let made = Namespace::create(name)?;
            names.0.push(name.clone());
            Ok::<_, io::IoError>(made)
        };
        let [client, middle, server] = &Self::names();
        let (client, middle, server) = (create(client)?, create(middle)?, create(server)?);
        let network = Self { client, middle, server, _names: names };
        network.cable(&network.client, CLIENT_NET, MOBILE)?;
        network.cable(&network.server, SERVER_NET, WIRED)?;
        sysctl::write(&network.middle, "net/ipv4/ip_forward", "1")?;
        for end in [&network.client, &network.server] {
            // Figures of one flow must not shape the next.
            sysctl::write(end, "net/ipv4/tcp_no_metrics_save", "1")?;
        }
        Ok(network)
    }

    /// A cable between the box's interface `here` and `there`, whose way to everything it is.
    fn cable(&self, there: &Namespace, net: u8, here: &str) -> Result<(), BenchError> {
        const THERE: &str = "eth0";
        let middle = self.middle.netlink()?;
        let ends = [VethEnd { name: here, namespace: None }, VethEnd { name: THERE, namespace: Some(there) }];
        middle.create_veth(ends[0], ends[1])?;
        let outer = there.netlink()?;
        configure(&middle, here, address(net, BOX))?;
        configure(&outer, THERE, address(net, HOST))?;
        outer.add_route(&Route::via(Cidr::everything(Family::V4), address(net, BOX)))?;
        Ok(())
    }
}

fn configure(netlink: &Netlink, name: &str, address: IpAddr) -> Result<(), io::IoError> {
    let index = netlink.index_of(name)?;
    netlink.add_address(index, Cidr::new(address, 24))?;
    netlink.set_up(index)
}
