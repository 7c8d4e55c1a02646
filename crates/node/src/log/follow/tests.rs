use tokio::time::timeout;

use super::super::read::tests::{Scratch, lines};
use super::*;

/// Nothing here takes long; what does not come is missing.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

struct Fixture {
    scratch: Scratch,
    ended: watch::Sender<bool>,
    folders: Arc<Folders>,
}

impl Fixture {
    fn new() -> Self {
        Self {
            scratch: Scratch::new(),
            ended: watch::Sender::new(false),
            folders: Arc::new(Folders::new().unwrap()),
        }
    }

    async fn open(&self, query: Query) -> Answered {
        let source = Source {
            folder: self.scratch.0.clone(),
            container: "web".to_owned(),
            attempt: 3,
            ended: self.ended.subscribe(),
        };
        let stream = open(source, query, self.folders.clone()).await.unwrap();
        Answered { stream: stream.unwrap(), text: String::new() }
    }

    fn write(&self, text: &str) {
        self.scratch.append(&lines(&[('F', text)]));
    }
}

struct Answered {
    stream: mpsc::Receiver<io::Result<Bytes>>,
    text: String,
}

impl Answered {
    /// Waits until this has come since last time.
    async fn comes(&mut self, expected: &str) {
        while self.text.len() < expected.len() {
            let next = timeout(READ_TIMEOUT, self.stream.recv()).await.expect("it does not come");
            self.text.push_str(str::from_utf8(&next.unwrap().unwrap()).unwrap());
        }
        assert_eq!(self.text, expected);
        self.text.clear();
    }

    async fn ends(&mut self) {
        assert!(
            timeout(READ_TIMEOUT, self.stream.recv()).await.expect("it does not end").is_none()
        );
    }
}

fn follow() -> Query {
    Query { follow: true, ..Query::default() }
}

#[tokio::test]
async fn what_is_there_is_sent_and_that_is_all() {
    let fixture = Fixture::new();
    fixture.write("a");
    fixture.scratch.rotate();
    fixture.write("b");
    let mut answered = fixture.open(Query::default()).await;
    answered.comes("a\nb\n").await;
    answered.ends().await;
}

#[tokio::test]
async fn followers_see_what_comes_until_the_end() {
    let fixture = Fixture::new();
    // Not even the file is there.
    let mut answered = fixture.open(follow()).await;
    fixture.write("a");
    answered.comes("a\n").await;
    fixture.write("b");
    fixture.scratch.rotate();
    fixture.write("c");
    answered.comes("b\nc\n").await;
    let mut second = fixture.open(Query { tail_lines: Some(1), ..follow() }).await;
    second.comes("c\n").await;
    for number in 0..200 {
        fixture.write(&number.to_string());
        if number % 50 == 49 {
            fixture.scratch.rotate();
            answered
                .comes(&(number - 49..=number).map(|n| format!("{n}\n")).collect::<String>())
                .await;
        }
    }
    // The last output and the end, at once.
    fixture.scratch.append("2026-01-02T03:04:05Z stdout P the end");
    fixture.ended.send_replace(true);
    answered.comes("the end").await;
    answered.ends().await;
}

#[tokio::test]
async fn the_end_is_where_nobody_can_tell_of_it() {
    let fixture = Fixture::new();
    fixture.write("a");
    let mut answered = fixture.open(follow()).await;
    answered.comes("a\n").await;
    let Fixture { ended, scratch, folders } = fixture;
    drop(ended);
    answered.ends().await;
    drop((scratch, folders));
}

#[tokio::test]
async fn a_limit_ends_following() {
    let fixture = Fixture::new();
    let mut answered = fixture.open(Query { limit_bytes: Some(3), ..follow() }).await;
    fixture.write("a");
    answered.comes("a\n").await;
    fixture.write("bcd");
    answered.comes("b").await;
    answered.ends().await;
}

#[tokio::test]
async fn a_slow_reader_holds_up_only_itself() {
    let fixture = Fixture::new();
    let text = "x".repeat(16 << 10);
    for _ in 0..100 {
        fixture.write(&text);
    }
    let mut slow = fixture.open(follow()).await;
    let mut fast = fixture.open(follow()).await;
    let whole = format!("{text}\n").repeat(100);
    fast.comes(&whole).await;
    assert!(slow.stream.len() <= MAX_QUEUED_BLOCKS);
    slow.comes(&whole).await;
}

#[tokio::test]
async fn nothing_goes_on_when_nobody_listens() {
    let fixture = Fixture::new();
    let answered = fixture.open(follow()).await;
    assert_eq!(fixture.ended.receiver_count(), 1);
    drop(answered);
    timeout(READ_TIMEOUT, fixture.ended.closed()).await.expect("a follower is still there");
}

#[tokio::test]
async fn a_log_that_is_not_there_is_none() {
    let fixture = Fixture::new();
    let source = Source {
        folder: fixture.scratch.0.clone(),
        container: "web".to_owned(),
        attempt: 7,
        ended: fixture.ended.subscribe(),
    };
    let none = open(source, Query::default(), fixture.folders.clone()).await.unwrap();
    assert!(none.is_none());
}

/// Without the kernel's help changes are seen all the same.
#[tokio::test(start_paused = true)]
async fn followers_look_where_nobody_tells() {
    let fixture = Fixture::new();
    fixture.write("a");
    let (_sender, ended) = watch::channel(false);
    let mut following = Following { watch: None, ended, _folders: fixture.folders.clone() };
    let since = tokio::time::Instant::now();
    following.changed().await;
    assert_eq!(since.elapsed(), POLL_INTERVAL);
}
