//! [`serve`]: the metrics over HTTP, from a process that can do nothing else.
//!
//! ```text
//!   GET /metrics ─▶ one question at a time ─▶ the reader
//!                   who comes meanwhile waits for the same answer
//! ```

use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream as AsyncUnixStream;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::gather::Answered;
use crate::http::{self, End, Endpoint, Place, Site};
use crate::{TelemetryError, metrics};

/// A page is shown again within this time.
const FRESH_FOR: Duration = Duration::from_millis(500);

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Serves the metrics that `reader` gives at `listen`, until the reader has gone. `ready` is told where.
///
/// # Errors
/// The address cannot be listened at, or the reader speaks otherwise.
pub fn serve(
    listen: SocketAddr,
    reader: UnixStream,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), TelemetryError> {
    http::serve(Endpoint { listen, tls: None }, ready, |end| {
        let doing = || TelemetryError::doing("use the way to the other process");
        reader.set_nonblocking(true).map_err(doing())?;
        let reader = Reader(AsyncUnixStream::from_std(reader).map_err(doing())?);
        Ok(Pages(Arc::new(Mutex::new(Source { reader, last: None, end: Some(end) }))))
    })
}

/// Longest answer of the reader, bytes: a snapshot has some kilobytes.
const ANSWER_LEN_MAX: u32 = 16 << 20;

/// The other process, which may use the control sockets.
struct Reader(AsyncUnixStream);

impl Reader {
    /// One answer of JSON.
    ///
    /// # Errors
    /// It has gone.
    async fn ask(&mut self) -> std::io::Result<Vec<u8>> {
        self.0.write_all(&[1]).await?;
        let len = self.0.read_u32().await?.min(ANSWER_LEN_MAX);
        let mut json = vec![0; len as usize];
        self.0.read_exact(&mut json).await?;
        Ok(json)
    }
}

/// Pages that can be asked for.
#[derive(Clone)]
struct Pages(Arc<Mutex<Source>>);

/// Source of the metrics: one question at a time.
struct Source {
    reader: Reader,
    /// The page asked for last, and when that was.
    last: Option<(Instant, Arc<Page>)>,
    /// Reply when the reader has gone, or is none.
    end: Option<End>,
}

/// The metrics in both forms.
struct Page {
    open_metrics: Bytes,
    text: Bytes,
}

impl Site for Pages {
    type Body = Full<Bytes>;

    async fn answer(self, request: Request<Incoming>, place: Place) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "GET, or HEAD\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        match request.uri().path() {
            "/metrics" => {}
            "/" => return plain(StatusCode::OK, "cellerator: the metrics are at /metrics\n"),
            _ => return plain(StatusCode::NOT_FOUND, "there is only /metrics\n"),
        }
        // A task of its own, which keeps this connection's place: a client that goes away while the reader
        // answers must not leave half of that answer behind, nor make room for another one.
        let page = tokio::spawn(async move {
            let page = self.page().await;
            drop(place);
            page
        });
        let Some(page) = page.await.ok().flatten() else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "the metrics cannot be read\n");
        };
        let accepts = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (form, body) = if accepts.contains("application/openmetrics-text") {
            (OPEN_METRICS, page.open_metrics.clone())
        } else {
            (TEXT_FORMAT, page.text.clone())
        };
        let mut response = Response::new(Full::new(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form));
        response
    }
}

impl Pages {
    /// The metrics, asked for unless that was just done.
    async fn page(&self) -> Option<Arc<Page>> {
        let mut source = self.0.lock().await;
        if let Some((at, page)) = source.last.as_ref()
            && at.elapsed() < FRESH_FOR
        {
            return Some(Arc::clone(page));
        }
        match source.ask().await {
            Ok(answers) => {
                let open_metrics = metrics::exposition(&answers);
                let text = metrics::text_format(&open_metrics).into();
                let page = Arc::new(Page { open_metrics: open_metrics.into(), text });
                source.last = Some((Instant::now(), Arc::clone(&page)));
                Some(page)
            }
            Err(end) => {
                source.end.take().map(|told| told.send(end));
                None
            }
        }
    }
}

impl Source {
    /// Asks the reader.
    ///
    /// # Errors
    /// Outcome: good, if the reader has gone.
    async fn ask(&mut self) -> Result<Vec<Answered>, Result<(), TelemetryError>> {
        let json = self.reader.ask().await.map_err(|_| Ok(()))?;
        serde_json::from_slice(&json).map_err(|error| Err(TelemetryError::Foreign(error)))
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
