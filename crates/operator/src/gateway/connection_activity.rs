//! When bytes were last transferred on a connection: reported as activity, and used for the idle timeout.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sojourn_core::key::Key;
use tokio::time::{Instant, sleep_until};

/// How often one connection reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Called when somebody uses an instance.
pub type ActivityCallback = Arc<dyn Fn(&Key) + Send + Sync>;

pub(crate) struct ConnectionActivity {
    began: Instant,
    /// Milliseconds after `began`.
    last: AtomicU64,
    next_report: AtomicU64,
    report: Option<(Key, ActivityCallback)>,
}

impl fmt::Debug for ConnectionActivity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionActivity").field("last", &self.last).finish_non_exhaustive()
    }
}

impl ConnectionActivity {
    /// Without `report`, bytes do not count as activity.
    pub(crate) fn new(report: Option<(Key, ActivityCallback)>) -> Self {
        Self {
            began: Instant::now(),
            last: AtomicU64::new(0),
            next_report: AtomicU64::new(0),
            report,
        }
    }

    /// Bytes were transferred.
    pub(crate) fn record(&self) {
        let now = millis(self.began.elapsed());
        self.last.fetch_max(now, Ordering::Relaxed);
        let Some((key, activity)) = &self.report else { return };
        let due = self.next_report.load(Ordering::Relaxed);
        let next = now.saturating_add(millis(REPORT_INTERVAL));
        let mine = now >= due
            && self
                .next_report
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if mine {
            activity(key);
        }
    }

    /// When `idle` will have passed without anything moving, as it looks now.
    pub(crate) fn deadline(&self, idle: Duration) -> Instant {
        self.began + Duration::from_millis(self.last.load(Ordering::Relaxed)) + idle
    }

    /// Ends when nothing moved for so long.
    pub(crate) async fn idle_for(&self, idle: Duration) {
        loop {
            let deadline = self.deadline(idle);
            sleep_until(deadline).await;
            if self.deadline(idle) <= deadline {
                return;
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_reports_at_once_and_then_once_a_second() {
        let reports = Arc::new(AtomicUsize::new(0));
        let counted = reports.clone();
        let activity: ActivityCallback = Arc::new(move |key| {
            assert_eq!(*key, Key::new("ns", "lab"));
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let connection_activity = ConnectionActivity::new(Some((Key::new("ns", "lab"), activity)));
        for _ in 0..100 {
            connection_activity.record();
        }
        assert_eq!(reports.load(Ordering::Relaxed), 1);
        for _ in 0..30 {
            tokio::time::advance(Duration::from_millis(100)).await;
            connection_activity.record();
        }
        assert_eq!(reports.load(Ordering::Relaxed), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_is_counted_from_the_last_byte() {
        let connection_activity = Arc::new(ConnectionActivity::new(None));
        let idle = Duration::from_secs(10);
        let silent = tokio::spawn({
            let connection_activity = connection_activity.clone();
            async move {
                connection_activity.idle_for(idle).await;
                Instant::now()
            }
        });
        let began = Instant::now();
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(9)).await;
            connection_activity.record();
        }
        assert_eq!(silent.await.unwrap() - began, Duration::from_secs(37));
    }
}
