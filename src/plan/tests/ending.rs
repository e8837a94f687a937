//! How containers end: hooks, turns, signals, and one grace period for it all.

use super::*;
use crate::pod::hook::Hook;

const SECOND: Duration = Duration::from_secs(1);

fn main(name: &str) -> Container {
    container("u", 0, name, 0, running())
}

fn hooked(name: &str) -> Container {
    Container { pre_stop: Some(Hook::Exec(vec!["drain".into()])), ..main(name) }
}

fn sidecar(place: u32) -> Container {
    Container { sidecar: Some(place), ..main(&format!("side{place}")) }
}

/// A pod that is being ended, second by second.
struct Stopped {
    observed: Observed,
    terminations: Terminations,
    uptime: Duration,
    desired: u64,
    wake_in: Option<Duration>,
}

impl Stopped {
    fn of(containers: Vec<Container>) -> Self {
        let observed = Observed { sandboxes: vec![sandbox("u", 0, true)], containers };
        Self {
            observed,
            terminations: Terminations::default(),
            uptime: 1000 * SECOND,
            desired: 1,
            wake_in: None,
        }
    }

    /// Lets time pass, plans, notes what was planned, and tells it.
    fn after(&mut self, millis: u64) -> Vec<String> {
        self.uptime += Duration::from_millis(millis);
        let inputs = Inputs::default();
        let plan = plan_pod(&Situation {
            terminations: &self.terminations,
            uptime: self.uptime,
            ..inputs.situation(&Want::Stop { grace: None }, &self.observed)
        });
        for step in &plan.steps {
            if let Step::StopContainers(stops) = step {
                stops.iter().for_each(|stop| self.terminations.note(stop, self.desired));
            }
        }
        self.wake_in = plan.wake_in;
        words(&plan)
    }

    fn exits(&mut self, name: &str) {
        let found = self.observed.containers.iter_mut().find(|c| c.name == name).expect("a container");
        found.state = exited(0, 99);
        let id = found.id.clone();
        self.terminations.retain(|other| *other != id);
    }

    fn desire(&mut self, grace: Option<i64>) {
        self.desired += 1;
        self.terminations.shorten(self.desired, grace, self.uptime);
    }

    fn id(&self, name: &str) -> ContainerId {
        ContainerId(format!("u-{name}-0"))
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn the_hook_comes_before_the_signal_and_counts() {
    let mut pod = Stopped::of(vec![hooked("a"), main("b")]);
    assert_eq!(pod.after(0), ["stop u-a-0:hook@7 u-b-0@7"], "each by itself");
    assert_eq!(pod.wake_in, Some(7 * SECOND));
    assert_eq!(pod.after(2_500), NOTHING, "it runs");
    assert_eq!(pod.wake_in, Some(Duration::from_millis(4_500)));
    pod.terminations.hook_is_over(&pod.id("a"));
    assert_eq!(pod.after(0), ["stop u-a-0@5"], "what is left, in begun seconds");
    assert_eq!((pod.after(3_000), pod.wake_in), (vec![], None), "the runtime is at it");
}

/// The worker reports a hook that is cut short, and the reason for an end only when it begins.
#[test]
fn what_is_known_of_an_end_that_has_begun() {
    let mut pod = Stopped::of(vec![hooked("hooked"), main("main"), sidecar(0)]);
    let known = |pod: &Stopped| {
        ["hooked", "main", "side0"].map(|name| {
            (pod.terminations.has_begun(&pod.id(name)), pod.terminations.hook_runs(&pod.id(name)))
        })
    };
    let (not_begun, begun, hook_runs) = ((false, false), (true, false), (true, true));
    assert_eq!(known(&pod), [not_begun; 3]);
    assert_eq!(pod.after(0), ["stop u-hooked-0:hook@7 u-main-0@7 u-side0-0:wait"]);
    assert_eq!(known(&pod), [hook_runs, begun, begun], "one that waits for its turn has begun, too");
    pod.terminations.hook_is_over(&pod.id("hooked"));
    assert_eq!(known(&pod), [begun; 3]);
    pod.exits("main");
    assert_eq!(known(&pod), [begun, not_begun, begun]);

    let mut hangs = Stopped::of(vec![hooked("hooked")]);
    hangs.after(0);
    assert_eq!(known(&hangs)[0], hook_runs);
    hangs.after(7_000);
    assert_eq!(known(&hangs)[0], begun, "its time has passed");
}

#[test]
fn a_hook_reaches_the_sandbox_of_its_container() {
    let mut pod = Stopped::of(vec![hooked("a")]);
    let with_ip = |attempt, ip: &str| Sandbox { ips: vec![ip.into()], ..sandbox("u", attempt, true) };
    pod.observed.sandboxes = vec![with_ip(1, "10.0.0.1"), with_ip(0, "10.0.0.2")];
    let inputs = Inputs::default();
    let plan = plan_pod(&inputs.situation(&Want::Stop { grace: None }, &pod.observed));
    let Some(Step::StopContainers(stops)) = plan.steps.first() else { panic!("{plan:?}") };
    let StopAction::PreStop { pod_ip, .. } = &stops[0].action else { panic!("{stops:?}") };
    assert_eq!(pod_ip.as_deref(), Some("10.0.0.2"));
}

#[test]
fn a_hook_that_hangs_leaves_two_seconds() {
    let mut pod = Stopped::of(vec![hooked("a")]);
    pod.after(0);
    assert_eq!(pod.after(6_999), NOTHING);
    assert_eq!(pod.after(1), ["stop u-a-0@2"]);
}

#[test]
fn who_has_no_hook_run() {
    let unknown = Container { state: ContainerState::Unknown, ..hooked("a") };
    assert_eq!(Stopped::of(vec![unknown]).after(0), ["stop u-a-0@7"], "one that cannot be asked");
    let hurried = Container { grace: Some(0), ..hooked("a") };
    assert_eq!(Stopped::of(vec![hurried]).after(0), ["stop u-a-0@2"], "one without a grace period");
    let negative = Container { grace: Some(-5), ..hooked("a") };
    assert_eq!(Stopped::of(vec![negative]).after(0), ["stop u-a-0@2"]);
    let dead = Container { state: exited(1, 9), ..hooked("a") };
    assert_eq!(Stopped::of(vec![dead]).after(0)[..2], ["stop-sandbox u-s0", "rm u-a-0"], "one that is dead");
}

#[test]
fn sidecars_end_last_in_reverse_order_within_the_same_time() {
    let mut pod = Stopped::of(vec![sidecar(0), main("main"), sidecar(2)]);
    assert_eq!(pod.after(0), ["stop u-side0-0:wait u-main-0@7 u-side2-0:wait"]);
    assert_eq!(pod.after(3_000), NOTHING);
    pod.exits("main");
    assert_eq!(pod.after(0), ["stop u-side2-0@4"]);
    pod.exits("side2");
    assert_eq!(pod.after(1_000), ["stop u-side0-0@3"]);
    pod.exits("side0");
    assert_eq!(pod.after(0)[0], "stop-sandbox u-s0");
}

#[test]
fn a_sidecar_whose_turn_does_not_come_goes_with_the_rest() {
    let mut pod = Stopped::of(vec![sidecar(0), main("main"), sidecar(2)]);
    pod.after(0);
    assert_eq!(pod.after(7_000), ["stop u-side0-0@2 u-side2-0@2"]);
}

#[test]
fn the_hooks_of_sidecars_run_at_once() {
    let hooked = Container { pre_stop: hooked("x").pre_stop, ..sidecar(0) };
    let mut pod = Stopped::of(vec![hooked, main("main")]);
    assert_eq!(pod.after(0), ["stop u-side0-0:hook@7 u-main-0@7"]);
    pod.terminations.hook_is_over(&pod.id("side0"));
    assert_eq!(pod.after(1_000), NOTHING, "its turn has not come");
    pod.exits("main");
    assert_eq!(pod.after(1_000), ["stop u-side0-0@5"]);
}

#[test]
fn a_newer_desired_state_shortens_and_never_lengthens() {
    let long = Container { grace: Some(300), ..main("a") };
    let mut pod = Stopped::of(vec![long.clone()]);
    assert_eq!(pod.after(0), ["stop u-a-0@300"]);
    pod.desire(Some(600));
    assert_eq!(pod.after(10_000), NOTHING, "longer than what is left");
    pod.desire(None);
    assert_eq!(pod.after(10_000), NOTHING, "a desired state without a grace period");
    pod.desire(Some(5));
    assert_eq!(pod.after(0), ["stop u-a-0@5"]);
    pod.desire(Some(300));
    assert_eq!(pod.after(1_000), NOTHING);
    pod.desire(Some(0));
    assert_eq!(pod.after(0), ["stop u-a-0@2"], "at once means two seconds");

    let hooked = Container { pre_stop: hooked("a").pre_stop, ..long };
    let mut pod = Stopped::of(vec![hooked]);
    pod.after(0);
    pod.desire(Some(5));
    assert_eq!((pod.after(1_000), pod.wake_in), (vec![], Some(4 * SECOND)), "the hook goes on, for less");
    assert_eq!(pod.after(4_000), ["stop u-a-0@2"]);
}

#[test]
fn the_desired_state_that_began_an_end_does_not_shorten_it() {
    let mut pod = Stopped::of(vec![Container { grace: Some(300), ..main("a") }]);
    pod.desire(Some(5));
    assert_eq!(pod.after(0), ["stop u-a-0@300"], "the container was promised as much");
    pod.terminations.shorten(pod.desired, Some(5), pod.uptime);
    assert_eq!(pod.after(1_000), NOTHING);
}

#[test]
fn a_signal_of_its_own_is_sent_once() {
    let mut pod = Stopped::of(vec![Container { stop_signal: Some(10), grace: Some(300), ..main("a") }]);
    assert_eq!(pod.after(0), ["stop u-a-0@300 by 10"]);
    pod.desire(Some(5));
    assert_eq!(pod.after(0), ["stop u-a-0@5 again"]);
}

#[test]
fn a_call_that_failed_is_made_again_without_the_hook() {
    let mut pod = Stopped::of(vec![hooked("a")]);
    pod.after(0);
    pod.terminations.hook_is_over(&pod.id("a"));
    assert_eq!(pod.after(1_000), ["stop u-a-0@6"]);
    pod.terminations.call_is_over(&pod.id("a"));
    assert_eq!(pod.after(1_000), ["stop u-a-0@5"]);
    assert!(!pod.terminations.is_empty());
    pod.exits("a");
    assert!(pod.terminations.is_empty());
}
