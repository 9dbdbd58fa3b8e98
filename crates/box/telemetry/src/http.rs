//! [`serve`]: HTTP with bounds, from a process that can do nothing but answer and ask its reader.
//!
//! ```text
//!   connection ─ is there room? ─ TLS, a whole request in time? ─▶ a site's answer ─ does it take it in?
//!                     no: closed         no: closed                                      no: closed
//! ```

mod patient;
mod places;

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use crate::TelemetryError;
use patient::Patient;
pub use places::Place;
use places::Places;

/// Longest time for a client to send the head of a request, or to agree on TLS, and longest time of its
/// connection: a client that is still there connects again.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(600);

/// Longest head of a request, bytes.
const HEAD_LEN_MAX: usize = 16 * 1024;

/// After a connection could not be taken in, it waits so long: as a rule no descriptor is left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Reply how serving ended; dropped where that was well.
pub type End = oneshot::Sender<Result<(), TelemetryError>>;

/// Site that is served.
pub trait Site: Clone + Send + 'static {
    /// Of its answers.
    type Body: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;

    /// Answers one request of the connection at `place`.
    fn answer(
        self,
        request: Request<Incoming>,
        place: Place,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// Endpoint: the address, and the way of serving.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The address to listen at.
    pub listen: SocketAddr,
    /// The certificate to show, for an endpoint with TLS.
    pub tls: Option<Arc<ServerConfig>>,
}

/// Serves the site that `open` makes at an endpoint, until it says that this has ended. `ready` is told where.
///
/// # Errors
/// The address cannot be listened at, the site cannot be made, or how it ended.
pub fn serve<S: Site>(
    endpoint: Endpoint,
    ready: impl FnOnce(SocketAddr),
    open: impl FnOnce(End) -> Result<S, TelemetryError>,
) -> Result<(), TelemetryError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(TelemetryError::doing("start the server"))?;
    runtime.block_on(async {
        let listen = endpoint.listen;
        let doing = || TelemetryError::doing(format!("listen at {listen}"));
        let listener = TcpListener::bind(listen).await.map_err(doing())?;
        let (end, ended) = oneshot::channel();
        let site = open(end)?;
        ready(listener.local_addr().map_err(doing())?);
        let accepting = tokio::spawn(accept(listener, endpoint.tls.map(TlsAcceptor::from), site));
        let result = ended.await.unwrap_or(Ok(()));
        accepting.abort();
        result
    })
}

async fn accept<S: Site>(listener: TcpListener, tls: Option<TlsAcceptor>, site: S) {
    let places = Places::default();
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(place) = places.take(from.ip()) else { continue };
        // Small pieces are sent as they are made: a page that is live is not to wait for more.
        drop(stream.set_nodelay(true));
        let conversation = admit(stream, tls.clone(), site.clone(), place);
        // Who is too slow, or says what is no HTTP, has lost nothing but its connection.
        tokio::spawn(async move { drop(timeout(CONNECTION_TIME_MAX, conversation).await) });
    }
}

/// Has the connection's TLS agreed on, if there is to be any, and serves it.
async fn admit<S: Site>(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    site: S,
    place: Place,
) -> Result<(), hyper::Error> {
    let stream = Patient::new(stream);
    let Some(tls) = tls else { return converse(stream, site, place).await };
    match timeout(HEAD_TIME_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => converse(stream, site, place).await,
        // It trusts another certificate, or speaks no TLS.
        _ => Ok(()),
    }
}

async fn converse<S: Site>(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    site: S,
    place: Place,
) -> Result<(), hyper::Error> {
    let service = service_fn(move |request| {
        let (site, place) = (site.clone(), Place::clone(&place));
        async move { Ok::<_, Infallible>(site.answer(request, place).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .max_buf_size(HEAD_LEN_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}
