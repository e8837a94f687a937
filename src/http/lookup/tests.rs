//! Who may look up a name, and what a resolver that does not answer costs.

use std::sync::mpsc;
use std::time::Duration;

use futures_lite::future;
use smol::Timer;

use super::*;

fn pod(name: &str) -> LookupOwner {
    LookupOwner::Pod(name.to_owned())
}

#[test]
fn addresses_and_localhost_need_no_lookup() {
    let found =
        |host| without_lookup(host).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
    let both = Some(vec!["[::1]:0".to_owned(), "127.0.0.1:0".to_owned()]);
    for (host, expect) in [
        ("192.0.2.7", Some(vec!["192.0.2.7:0".to_owned()])),
        ("2001:db8::1", Some(vec!["[2001:db8::1]:0".to_owned()])),
        ("localhost", both.clone()),
        ("LocalHost.", both),
        ("localhost.example", None),
        ("my-localhost", None),
        ("example.com", None),
        ("", None),
    ] {
        assert_eq!(found(host), expect, "{host}");
    }
}

#[test]
fn who_may_begin() {
    let of_pods = |count: usize| -> Vec<(String, LookupOwner)> {
        (0..count).map(|n| (format!("h{n}"), pod(&format!("p{n}")))).collect()
    };
    let own = |owner: LookupOwner, count: usize| -> Vec<(String, LookupOwner)> {
        (0..count).map(|n| (format!("own{n}"), owner.clone())).collect()
    };
    let source = LookupOwner::Source;
    let cases = [
        ("nothing runs", vec![], "x", pod("a"), Admission::Begin),
        (
            "another pod's lookup of this name",
            vec![("x".to_owned(), pod("b"))],
            "x",
            pod("a"),
            Admission::Join,
        ),
        ("one of its own", own(pod("a"), 1), "x", pod("a"), Admission::Begin),
        ("two of its own", own(pod("a"), 2), "x", pod("a"), Admission::Wait),
        ("two of another pod", own(pod("b"), 2), "x", pod("a"), Admission::Begin),
        ("a free thread", of_pods(MAX_OF_PODS - 1), "x", pod("a"), Admission::Begin),
        ("no free thread", of_pods(MAX_OF_PODS), "x", pod("a"), Admission::Wait),
        ("no free thread, but this name", of_pods(MAX_OF_PODS), "h3", pod("a"), Admission::Join),
        ("the source does not wait for pods", of_pods(MAX_OF_PODS), "x", source.clone(), Admission::Begin),
        ("nor do pods for the source", own(source.clone(), 2), "x", pod("a"), Admission::Begin),
        ("the source waits for itself", own(source.clone(), 2), "x", source, Admission::Wait),
    ];
    for (name, running, host, owner, expect) in cases {
        let running = running.iter().map(|(name, owner)| (name.as_str(), owner));
        assert_eq!(admit(running, host, &owner), expect, "{name}");
    }
}

/// A resolver that answers a name only when it is told to.
fn held() -> (Lookups, mpsc::Sender<()>) {
    let (release, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let lookups = Lookups::new(move |host| match host {
        "quick" => Ok(vec![SocketAddr::from(([192, 0, 2, 1], 0))]),
        _ => {
            let _ = wait.lock().unwrap().recv();
            Err("late".to_owned())
        }
    });
    (lookups, release)
}

/// None if it does not begin.
async fn begin_soon(lookups: &Lookups, host: &str, owner: &LookupOwner) -> Option<Lookup> {
    let begin = async { lookups.begin(host, owner).await.ok() };
    let late = async {
        Timer::after(Duration::from_millis(50)).await;
        None
    };
    future::or(begin, late).await
}

#[test]
fn one_pods_hanging_lookups_delay_no_other() {
    let (lookups, release) = held();
    smol::block_on(async {
        for host in ["a", "b"] {
            assert!(begin_soon(&lookups, host, &pod("bad")).await.is_some(), "{host}");
        }
        for host in ["c", "d"] {
            assert!(begin_soon(&lookups, host, &pod("bad")).await.is_none(), "{host}");
        }
        let quick = begin_soon(&lookups, "quick", &pod("good")).await.expect("there is room for another pod");
        assert_eq!(quick.answer().await, Ok(vec![SocketAddr::from(([192, 0, 2, 1], 0))]));
        // Who waits begins when one has ended.
        let next = async { lookups.begin("c", &pod("bad")).await.map(drop).ok() };
        let free = async { release.send(()).ok() };
        assert_eq!(future::zip(next, free).await, (Some(()), Some(())));
    });
    drop(release);
}

#[test]
fn a_name_is_looked_up_once_for_all_and_nothing_stays() {
    let (lookups, release) = held();
    smol::block_on(async {
        for round in 0..1000 {
            let owner = pod(&format!("p{round}"));
            let lookup = begin_soon(&lookups, "same", &owner).await.expect("it joins the one that runs");
            drop(lookup);
        }
        assert_eq!(lookups.0.running().len(), 1);
        assert_eq!(Arc::strong_count(&lookups.0.running()["same"].answer), 1, "nobody is remembered");
        let lookup = lookups.begin("same", &pod("last")).await.unwrap();
        release.send(()).unwrap();
        assert_eq!(lookup.answer().await, Err("late".to_owned()));
        assert!(lookups.0.running().is_empty());
    });
}
