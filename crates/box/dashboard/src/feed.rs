//! [`Feed`]: server-sent events as they come, for as long as a page takes them in.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use telemetry::http::Place;
use tokio::sync::watch;

use crate::live_state::Seat;
use crate::subscriber::{Had, Watched};

/// Subject of a page. What comes while it takes nothing in is left out, or comes later in one piece.
pub(crate) enum View {
    /// All accelerators.
    Overview(watch::Receiver<Bytes>),
    /// A subscriber, and what the page has had of it.
    Subscriber(Arc<Watched>, watch::Receiver<()>, Had),
}

impl View {
    /// The next event's data; none when there will be no more.
    async fn next(&mut self) -> Option<Bytes> {
        match self {
            Self::Overview(events) => {
                events.changed().await.ok()?;
                Some(events.borrow_and_update().clone())
            }
            Self::Subscriber(watched, news, had) => loop {
                news.changed().await.ok()?;
                if let Some(event) = watched.since(had) {
                    return Some(event);
                }
            },
        }
    }
}

type Next = Pin<Box<dyn Future<Output = Option<(Bytes, View)>> + Send>>;

/// The body of an answer that goes on.
pub(crate) struct Feed {
    next: Option<Next>,
    /// It is asked for what the page shows as long as this is there.
    _seat: Seat,
    _place: Place,
}

impl Feed {
    pub fn new(view: View, seat: Seat, place: Place) -> Self {
        Self { next: Some(Box::pin(event(view))), _seat: seat, _place: place }
    }
}

/// The next event.
async fn event(mut view: View) -> Option<(Bytes, View)> {
    let data = view.next().await?;
    Some(([b"data: ", data.as_ref(), b"\n\n"].concat().into(), view))
}

impl Body for Feed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(next) = self.next.as_mut() else { return Poll::Ready(None) };
        let Poll::Ready(came) = next.as_mut().poll(context) else { return Poll::Pending };
        let (data, view) = came.map_or((None, None), |(data, view)| (Some(data), Some(view)));
        self.next = view.map(|view| Box::pin(event(view)) as Next);
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }
}
