//! Endpoints of all kinds, inside pods: how each is asked, and what no server can do to the agent.

use std::fs;
use std::time::Duration;

use super::{container, pod, probe, served, shared, status};
use crate::manifest::IDLE;
use crate::rig::{BUSYBOX, Rig, endpoint};

/// A pod with the server of `tests/endpoint`, and more containers.
fn server_pod(rig: &Rig, name: &str, spec: &[&str], containers: &[String]) -> String {
    let server = format!(
        "  - name: server\n    image: {BUSYBOX}\n    command: [endpoint]\n    \
         volumeMounts: [{{name: usr, mountPath: /usr}}, {{name: endpoint, mountPath: /bin/endpoint}}]\n"
    );
    let volumes = format!(
        "volumes: [{{name: usr, hostPath: {{path: /usr}}}}, {{name: endpoint, hostPath: {{path: {}}}}}, ",
        endpoint().display()
    );
    pod(rig, name, spec, &[&[server], containers].concat()).replace("volumes: [", &volumes)
}

fn wait_for_address(rig: &Rig, pod: &str) -> String {
    let mut address = String::new();
    rig.wait("the pod's address", || {
        address = status(rig, pod)["podIP"].as_str().unwrap_or_default().to_owned();
        !address.is_empty()
    });
    address
}

/// Waits until the last run of a probe has this result, with an output that begins so.
fn wait_for_result(rig: &Rig, container: &str, result: &str, output: &str) {
    rig.wait(&format!("{container} to be {result} with {output:?}"), || {
        let last = probe(rig, container, "Readiness")["last"].clone();
        last["result"] == result && last["output"].as_str().is_some_and(|told| told.starts_with(output))
    });
}

fn http_get(scheme: &str, port: u16, path: &str) -> String {
    format!(
        "readinessProbe: {{httpGet: {{scheme: {scheme}, port: {port}, path: '{path}', \
         httpHeaders: [{{name: X-Who, value: me}}, {{name: Host, value: web.example}}]}}, periodSeconds: 1}}"
    )
}

#[test]
fn hostile_endpoints_end_at_their_deadline_and_cost_no_memory() {
    let rig = Rig::new();
    let cases = [
        ("asked", "HTTP", 8080, "/well?a=b", "Success", "hello"),
        ("twice", "HTTP", 8080, "/twice", "Success", "hello"),
        ("endless", "HTTP", 8080, "/endless", "Success", "xxxx"),
        (
            "elsewhere",
            "HTTP",
            8080,
            "/elsewhere",
            "Warning",
            "Probe terminated redirects, Response body: gone",
        ),
        ("unwell", "HTTP", 8080, "/fail", "Failure", "HTTP probe failed with statuscode: 503"),
        ("trickle", "HTTP", 8080, "/trickle", "Failure", "no whole answer within 1s"),
        ("silence", "HTTP", 8080, "/hang", "Failure", "no whole answer within 1s"),
        ("header", "HTTP", 8080, "/header", "Failure", "no whole answer"),
        ("early", "HTTP", 8080, "/early", "Failure", "no whole answer"),
        ("drip", "HTTP", 8080, "/drip", "Failure", "no whole answer within 1s"),
        ("loop", "HTTP", 8080, "/loop", "Failure", "a redirect is not followed"),
        ("closed", "HTTP", 9, "/", "Failure", ""),
        ("stranger", "HTTPS", 8443, "/well", "Success", "hello"),
        ("packed-trickle", "HTTPS", 8443, "/trickle", "Failure", "no whole answer within 1s"),
        ("nonsense", "HTTPS", 8444, "/well", "Success", "hello"),
        ("plain", "HTTPS", 8080, "/well", "Failure", ""),
    ];
    let mut containers: Vec<_> = cases
        .iter()
        .map(|(name, scheme, port, path, ..)| container(name, &[&http_get(scheme, *port, path)], IDLE))
        .collect();
    containers.push(container("echo", &[&http_get("HTTP", 8080, "/echo?a=b")], IDLE));
    let loud = "readinessProbe: {exec: {command: [sh, -c, 'yes | head -c 8388608']}, periodSeconds: 1, timeoutSeconds: 5}";
    containers.push(container("loud", &[loud], IDLE));
    // As many pods without a hostile server cost this much.
    let idle: Vec<_> =
        containers.iter().enumerate().map(|(n, _)| container(&format!("c{n}"), &[], IDLE)).collect();
    rig.write_manifest("idle.yaml", &pod(&rig, "idle", &[], &idle));
    let agent = rig.start_agent(&[]);
    rig.wait("the pod that does nothing", || super::is_ready(&rig, "idle-node1"));
    let before = agent.rss_kib();
    rig.write_manifest("pod.yaml", &server_pod(&rig, "pod", &[], &containers));
    let address = wait_for_address(&rig, "pod-node1");
    for (name, scheme, port, path, result, output) in cases {
        // What fails on the way names the URL; what the server says does not.
        let is_answer = result != "Failure" || output.starts_with("HTTP probe");
        let url = format!("Get \"{}://{address}:{port}{path}\": ", scheme.to_lowercase());
        let output = if is_answer { output.to_owned() } else { url + output };
        wait_for_result(&rig, name, result, &output);
    }
    wait_for_result(&rig, "echo", "Success", "GET /echo?a=b HTTP/1.1\r\n");
    let echo = probe(&rig, "echo", "Readiness")["last"]["output"].as_str().unwrap_or_default().to_owned();
    for line in ["User-Agent: kube-probe/1.36", "Accept: */*", "X-Who: me", "Host: web.example"] {
        assert!(echo.lines().any(|sent| sent.eq_ignore_ascii_case(line)), "{line} in {echo}");
    }
    wait_for_result(&rig, "loud", "Success", "y\ny\n");
    let count = || probe(&rig, "endless", "Readiness")["inARow"].as_i64().unwrap_or_default();
    let so_far = count();
    rig.wait("ten more rounds", || count() >= so_far + 10);
    let after = agent.rss_kib();
    println!("from {before} to {after} KiB");
    assert!(after < before + 8192, "from {before} to {after} KiB");
}

/// What nobody checks may be anything that TLS can speak with.
#[test]
fn certificates_that_are_merely_odd_are_no_failures() {
    let rig = Rig::new();
    let dir = shared(&rig);
    let odd = [
        ("v1", 9001, "genrsa -out {}.key 2048"),
        ("p521", 9002, "ecparam -name secp521r1 -genkey -noout -out {}.key"),
        ("short", 9003, "genrsa -out {}.key 1024"),
    ];
    let mut containers = Vec::new();
    for (name, port, make) in odd {
        let at = dir.join(name).display().to_string();
        let make = make.replace("{}", &at);
        rig.output("openssl", &make.split(' ').collect::<Vec<_>>());
        // Signed by its own key from a request, without extensions: version 1 of X.509.
        let request = format!("req -new -subj /CN={name} -key {at}.key -out {at}.csr");
        rig.output("openssl", &request.split(' ').collect::<Vec<_>>());
        let sign = format!("x509 -req -days 1 -in {at}.csr -signkey {at}.key -out {at}.pem");
        rig.output("openssl", &sign.split(' ').collect::<Vec<_>>());
        let serve = format!(
            "/usr/bin/openssl s_server -quiet -www -accept {port} -cipher DEFAULT@SECLEVEL=0 -key /shared/{name}.key \
             -cert /shared/{name}.pem"
        );
        let text = container(name, &[&http_get("HTTPS", port, "/")], &serve);
        containers.push(text.replace("volumeMounts: [", "volumeMounts: [{name: usr, mountPath: /usr}, "));
    }
    rig.write_manifest("pod.yaml", &server_pod(&rig, "pod", &[], &containers));
    let _agent = rig.start_agent(&[]);
    for (name, ..) in odd {
        wait_for_result(&rig, name, "Success", "");
    }
}

#[test]
fn a_network_that_swallows_everything_costs_no_sockets() {
    let rig = Rig::new();
    rig.output("iptables", &["-A", "INPUT", "-p", "tcp", "--dport", "7", "-j", "DROP"]);
    let tcp = "readinessProbe: {tcpSocket: {port: 7}, periodSeconds: 1, failureThreshold: 1000}";
    let containers = [
        container("tcp", &[tcp], IDLE),
        container("http", &[&http_get("HTTP", 7, "/")], IDLE),
        container("https", &[&http_get("HTTPS", 7, "/")], IDLE),
        container("grpc", &[&grpc(7, "good")], IDLE),
    ];
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", &["hostNetwork: true"], &containers));
    let _agent = rig.start_agent(&[]);
    wait_for_result(&rig, "tcp", "Failure", "dial tcp 192.0.2.10:7: i/o timeout");
    wait_for_result(&rig, "http", "Failure", "Get \"http://192.0.2.10:7/\": no whole answer within 1s");
    wait_for_result(&rig, "https", "Failure", "Get \"https://192.0.2.10:7/\": no whole answer within 1s");
    wait_for_result(&rig, "grpc", "Failure", "timeout: health rpc did not complete within 1s");
    let open = || -> u32 {
        let metrics = served(&rig, "/metrics").unwrap_or_default();
        let count = metrics.lines().find_map(|line| line.strip_prefix("process_open_fds "));
        count.and_then(|count| count.parse().ok()).expect("the number of open files")
    };
    let in_a_row = |name: &str| probe(&rig, name, "Readiness")["inARow"].as_i64().unwrap_or_default();
    let (before, so_far) = (open(), in_a_row("grpc"));
    rig.wait("ten more rounds", || in_a_row("grpc") >= so_far + 10);
    let after = open();
    // One connection may be under way for each.
    assert!(after <= before + 4, "from {before} to {after} open files");
}

#[test]
fn after_a_restart_of_the_agent_the_first_round_is_spread_out() {
    let rig = Rig::new();
    let closed = "readinessProbe: {tcpSocket: {port: 7}, periodSeconds: 4, failureThreshold: 1000}";
    let containers: Vec<_> = (0..20).map(|n| container(&format!("c{n}"), &[closed], IDLE)).collect();
    rig.write_manifest("pod.yaml", &pod(&rig, "pod", &["hostNetwork: true"], &containers));
    let agent = rig.start_agent(&[]);
    rig.wait_running("pod-node1", "c19");
    agent.terminate();
    let _agent = rig.start_agent(&[]);
    let mut times: Vec<jiff::Timestamp> = Vec::new();
    rig.wait("the first round", || {
        let all = |n: u8| probe(&rig, &format!("c{n}"), "Readiness")["last"]["at"].as_str()?.parse().ok();
        times = (0..20).filter_map(all).collect();
        times.len() == 20
    });
    times.sort();
    let spread = times[19].duration_since(times[0]).as_secs_f64();
    // Twenty chances in four seconds; a round that is not spread out takes a moment.
    assert!(spread > 1.0, "all within {spread} s");
}

/// Fifty containers with two probes each that hang, and one that is well, with the deadline that probes have by default:
/// it is asked every second all the same, and never fails.
fn well_beside_hanging(
    hang: impl Fn(&str) -> String,
    well: impl Fn(&str) -> String,
    hanging: impl Fn(&Rig, &str) -> usize,
    gaps: impl Fn(&Rig, &str) -> Vec<u64>,
) {
    let rig = Rig::new();
    rig.write_manifest("server.yaml", &server_pod(&rig, "server", &[], &[]));
    let _agent = rig.start_agent(&[]);
    let address = wait_for_address(&rig, "server-node1");
    let every = |kind: &str, what: &str, timeout: u8| {
        format!(
            "{kind}Probe: {{{what}, periodSeconds: 1, timeoutSeconds: {timeout}, failureThreshold: 1000}}"
        )
    };
    let hang = [every("liveness", &hang(&address), 20), every("readiness", &hang(&address), 20)];
    for number in 0..5 {
        let name = format!("hangs{number}");
        let hangs = |place| container(&format!("c{place}"), &[&hang[0], &hang[1]], "exec sleep 1000");
        let containers: Vec<_> = (0..10).map(hangs).collect();
        let spec = ["hostNetwork: true", "terminationGracePeriodSeconds: 1"];
        rig.write_manifest(&format!("{name}.yaml"), &pod(&rig, &name, &spec, &containers));
    }
    let well = every("readiness", &well(&address), 1);
    // Others than its like do not wait for it either.
    let other = every("liveness", &format!("tcpSocket: {{host: {address}, port: 8080}}"), 1);
    let well = container("well", &[&well, &other], IDLE);
    rig.write_manifest("well.yaml", &pod(&rig, "well", &["hostNetwork: true"], &[well]));
    rig.wait("all of them to hang", || hanging(&rig, &address) >= 100);
    let so_far = gaps(&rig, &address).len();
    rig.wait("ten rounds of the other", || gaps(&rig, &address).len() >= so_far + 10);
    assert!(hanging(&rig, &address) >= 50, "they hang still, or again");
    let mut gaps = gaps(&rig, &address).split_off(so_far);
    gaps.sort_unstable();
    println!("milliseconds between two runs: {gaps:?}");
    // The machine of a test may be slow for a moment.
    assert!(gaps[gaps.len() * 8 / 10 - 1] < 1100 && gaps.last() < Some(&2_500), "{gaps:?}");
    let metrics = served(&rig, "/metrics/probes").expect("metrics");
    let failed = |line: &&str| {
        line.starts_with("prober_probe_total{container=\"well\"") && !line.contains("result=\"successful\"")
    };
    assert_eq!(metrics.lines().filter(failed).collect::<Vec<_>>(), [""; 0], "{gaps:?}");
}

#[test]
fn a_hundred_requests_that_hang_delay_no_other_probe() {
    let ask = |address: &str, path: &str| format!("httpGet: {{host: {address}, port: 8080, path: {path}}}");
    let told = |rig: &Rig, address: &str, path: &str| {
        rig.http_get(&format!("http://{address}:8080{path}")).map(|reply| reply.body).unwrap_or_default()
    };
    well_beside_hanging(
        |address| ask(address, "/hang"),
        |address| ask(address, "/timed"),
        |rig, address| told(rig, address, "/hanging").parse().unwrap_or_default(),
        |rig, address| told(rig, address, "/gaps").split(' ').flat_map(str::parse).collect(),
    );
}

#[test]
fn a_hundred_commands_that_hang_delay_no_other_probe() {
    let run = |command: &str| format!("exec: {{command: [sh, -c, '{command}']}}");
    well_beside_hanging(
        |_| run("exec sleep 1000"),
        |_| run("cut -d \" \" -f 1 /proc/uptime >> /shared/times"),
        |rig, _| {
            let metrics = served(rig, "/metrics").unwrap_or_default();
            let running = metrics.lines().find_map(|line| line.strip_prefix("rkubelet_exec_probes "));
            running.and_then(|running| running.parse().ok()).unwrap_or_default()
        },
        |rig, _| {
            let text = fs::read_to_string(shared(rig).join("times")).unwrap_or_default();
            let times: Vec<f64> = text.lines().flat_map(str::parse).collect();
            let gap = |pair: &[f64]| Duration::from_secs_f64(pair[1] - pair[0]);
            times.windows(2).map(|pair| u64::try_from(gap(pair).as_millis()).expect("a short time")).collect()
        },
    );
}

fn grpc(port: u16, service: &str) -> String {
    format!(
        "readinessProbe: {{grpc: {{port: {port}, service: {service}}}, periodSeconds: 1, failureThreshold: 1}}"
    )
}

#[test]
fn the_health_service_is_asked_over_grpc() {
    let rig = Rig::new();
    let containers = [
        ("good", grpc(50051, "good"), "Success", "service healthy"),
        ("bad", grpc(50051, "other"), "Failure", "service unhealthy (responded with \"NOT_SERVING\")"),
        ("unknown", grpc(50051, "nobody"), "Failure", "error: health rpc probe failed: "),
        ("hangs", grpc(50051, "hang"), "Failure", "timeout: health rpc did not complete within 1s"),
        ("web", grpc(8080, "good"), "Failure", "error: "),
        ("closed", grpc(9, "good"), "Failure", "error: failed to connect service at "),
    ];
    let texts: Vec<_> = containers.iter().map(|(name, probe, ..)| container(name, &[probe], IDLE)).collect();
    rig.write_manifest("pod.yaml", &server_pod(&rig, "pod", &[], &texts));
    let _agent = rig.start_agent(&[]);
    for (name, _, result, output) in containers {
        wait_for_result(&rig, name, result, output);
    }
}

#[test]
fn pods_with_ipv6_addresses_alone_are_probed() {
    let rig = Rig::without_containerd();
    let network = r#"{"cniVersion": "0.4.0", "name": "rig", "plugins": [{
        "type": "bridge", "bridge": "cni0", "isGateway": true,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": "fd00:88::/64"}]], "routes": [{"dst": "::/0"}]}}]}"#;
    fs::write(rig.dir().join("cni/10-rig.conflist"), network).expect("write the CNI configuration");
    rig.start_containerd();
    let tcp = |port: u16| format!("readinessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 1}}");
    let containers = [
        ("http", http_get("HTTP", 8080, "/well"), "Success", "hello"),
        ("twice", http_get("HTTP", 8080, "/twice"), "Success", "hello"),
        ("https", http_get("HTTPS", 8443, "/well"), "Success", "hello"),
        ("tcp", tcp(8080), "Success", ""),
        ("closed", tcp(9), "Failure", "dial tcp [fd00:88::"),
        ("grpc", grpc(50051, "good"), "Success", "service healthy"),
    ];
    let texts: Vec<_> = containers.iter().map(|(name, probe, ..)| container(name, &[probe], IDLE)).collect();
    rig.write_manifest("pod.yaml", &server_pod(&rig, "pod", &[], &texts));
    let _agent = rig.start_agent(&[]);
    assert!(wait_for_address(&rig, "pod-node1").starts_with("fd00:88::"));
    for (name, _, result, output) in containers {
        wait_for_result(&rig, name, result, output);
    }
}
