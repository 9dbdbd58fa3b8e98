//! [`Patient`]: a stream whose writes fail when the other end takes nothing in for a while.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Longest time that a client may take nothing in.
const WRITE_TIME_MAX: Duration = Duration::from_secs(15);

/// The stream. Its reads may take as long as they like: others bound them.
pub(super) struct Patient<S> {
    stream: S,
    /// Time at which a write that waits has waited too long.
    too_late: Option<Pin<Box<Sleep>>>,
    write_time_max: Duration,
}

impl<S> Patient<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, too_late: None, write_time_max: WRITE_TIME_MAX }
    }

    /// Outcome of a write; one that waits is given up in time.
    fn bounded<T>(&mut self, context: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.too_late = None;
            return polled;
        }
        let time = self.write_time_max;
        let too_late = self.too_late.get_or_insert_with(|| Box::pin(sleep(time)));
        match too_late.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.bounded(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.bounded(context, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn who_takes_nothing_in_is_given_up_and_who_reads_is_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (own, mut other) = tokio::io::duplex(8);
            let time = Duration::from_millis(50);
            let mut own = Patient { write_time_max: time, ..Patient::new(own) };
            own.write_all(b"12345678").await.unwrap();
            let reader = tokio::spawn(async move {
                sleep(time / 5).await;
                other.read_exact(&mut [0; 4]).await.unwrap();
                other
            });
            own.write_all(b"90").await.unwrap();
            // It reads no more, and is there.
            let _other = reader.await.unwrap();
            let late = own.write_all(&[0; 64]).await.unwrap_err();
            assert_eq!(late.kind(), io::ErrorKind::TimedOut);
        });
    }
}
