//! What makes no sense in either protocol: it is refused, and others are served as before.

use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::{Builder, Handle};

use super::client::{Answer, GrpcClient, framed};
use super::{Served, until, within};
use crate::game::sdk::SdkRequest;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes that are the same in every run and mean nothing.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(length).collect()
}

impl Served {
    /// Sends bytes, ends, and reads whatever comes back until the other side ends too.
    async fn throw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().await;
        let (mut reader, mut writer) = stream.split();
        let sent = async {
            // Whoever is refused early cannot send the rest.
            if writer.write_all(bytes).await.is_ok() {
                drop(writer.shutdown().await);
            }
        };
        let read = async {
            let mut back = Vec::new();
            drop(reader.read_to_end(&mut back).await);
            back
        };
        within(async { tokio::join!(sent, read).1 }).await
    }

    async fn is_well(&self) {
        let answer = self.grpc().await.call("/agones.dev.sdk.SDK/Ready", b"").await;
        assert_eq!(answer, Answer::ok(b""));
        assert_eq!(self.send(Method::POST, "/ready", "{}").await.0, StatusCode::OK);
        assert_eq!(self.backend.heard(), [SdkRequest::Ready, SdkRequest::Ready]);
    }
}

#[tokio::test]
async fn random_bytes_harm_nobody_on_either_protocol() {
    let served = Served::start().await;
    for seed in 0..100 {
        let length = usize::try_from(seed).unwrap() * 37 % 3_000;
        let noise = noise(seed, length);
        served.throw(&noise).await;
        served.throw(&[PREFACE, &noise].concat()).await;
        served
            .throw(
                &[b"POST /ready HTTP/1.1\r\ncontent-length: 9\r\n\r\n".as_slice(), &noise].concat(),
            )
            .await;
        served
            .throw(
                &[b"POST /ready HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n".as_slice(), &noise]
                    .concat(),
            )
            .await;
    }
    for cut in 0..PREFACE.len() {
        served.throw(&PREFACE[..cut]).await;
        let mut wrong = PREFACE.to_vec();
        wrong[cut] ^= 0x20;
        served.throw(&wrong).await;
    }
    assert_eq!(served.backend.heard(), []);
    served.is_well().await;
    served.stop().await;
}

#[tokio::test]
async fn random_messages_and_cut_off_frames_are_refused_call_by_call() {
    let served = Served::start().await;
    let mut client = served.grpc().await;
    let methods = [
        "/agones.dev.sdk.SDK/Ready",
        "/agones.dev.sdk.SDK/Reserve",
        "/agones.dev.sdk.SDK/SetLabel",
        "/agones.dev.sdk.SDK/Health",
        "/agones.dev.sdk.SDK/WatchGameServer",
        "/agones.dev.sdk.alpha.SDK/PlayerConnect",
        "/agones.dev.sdk.beta.SDK/UpdateCounter",
        "/agones.dev.sdk.beta.SDK/UpdateList",
    ];
    for path in methods {
        for seed in 1..20 {
            // A field that does not exist, of a wire type that does not exist, before the noise.
            let said = [vec![0x0f], noise(seed, 40)].concat();
            let answer = client.call(path, &said).await;
            assert_eq!(answer.status, "3", "{path} {seed}: {answer:?}");
        }
        for (bytes, status) in [
            (&b"\0"[..], "13"),
            (b"\0\0\0\0", "13"),
            (b"\0\0\0\0\x05ab", "13"),
            (b"\0\xff\xff\xff\xff", "8"),
            (b"\0\0\x01\0\x01", "8"),
            (b"\x01\0\0\0\0", "12"),
            (b"\xff\xff\xff\xff\xff\xff", "12"),
        ] {
            let answer = client.call_raw(path, Bytes::copy_from_slice(bytes)).await;
            assert_eq!(answer.status, status, "{path} {bytes:?}");
        }
    }
    let empty = client.call_raw("/agones.dev.sdk.SDK/Ready", Bytes::new()).await;
    assert_eq!(empty, Answer::refused(13, "there is no message"));
    let long = vec![0; 64 << 10];
    let (sender, answered) = client.stream("/agones.dev.sdk.SDK/Health");
    within(sender.send(framed(&[[0x0a].as_slice(), &long].concat()))).await.unwrap();
    let too_long = Answer::refused(8, "the message is too long");
    assert_eq!(within(answered).await.unwrap(), too_long);
    assert_eq!(served.backend.heard(), []);
    served.is_well().await;
    served.stop().await;
}

#[tokio::test]
async fn a_thousand_pipelined_requests_are_answered_in_their_order() {
    let served = Served::start().await;
    let one = b"POST /health HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}";
    let last = b"GET /alpha/player/count HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut stream = served.connect().await;
    let (mut reader, mut writer) = stream.split();
    let sent = async {
        writer.write_all(&[one.repeat(1_000).as_slice(), last].concat()).await.unwrap();
    };
    let read = async {
        let mut back = String::new();
        reader.read_to_string(&mut back).await.unwrap();
        back
    };
    let back = within(async { tokio::join!(sent, read).1 }).await;
    assert_eq!(back.matches("HTTP/1.1 200 OK").count(), 1_001);
    assert!(back.ends_with(r#"{"count":"1"}"#), "{back}");
    assert_eq!(served.backend.heard(), vec![SdkRequest::Health; 1_000]);
    served.stop().await;
}

#[tokio::test]
async fn no_task_outlives_its_connection() {
    let served = Served::start().await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let idle = tasks();
    served.backend.hang();
    // A client whose tasks are not counted, and which ends without a word.
    let elsewhere = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let address = served.address;
    elsewhere.spawn(async move {
        let client = GrpcClient::connect(address).await;
        let mut open = Vec::new();
        for method in ["Health", "WatchGameServer", "Ready"] {
            let (said, answered) = client.stream(&format!("/agones.dev.sdk.SDK/{method}"));
            within(said.send(framed(b""))).await.unwrap();
            open.push((said, answered));
        }
        std::future::pending::<()>().await;
    });
    let mut watch = served.connect().await;
    watch.write_all(b"GET /watch/gameserver HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut ready = served.connect().await;
    ready.write_all(b"POST /ready HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    until("two streams are open and three calls hang", || {
        served.backend.watches() == 2 && served.backend.heard_count() == 3
    })
    .await;
    assert!(tasks() >= idle + 6, "three connections, three calls: {}", tasks());
    elsewhere.shutdown_background();
    drop((watch, ready));
    until("every task is gone", || tasks() == idle).await;
    assert_eq!(served.backend.watches(), 0);
    served.stop().await;
}
