//! The limit: a bare CRI client makes the same pods by the same calls, without an agent around it.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use rkubelet::testing::cri::proto::{ContainerState, Mount, PodSandboxConfig};
use rkubelet::testing::{ClusterDns, parse_resolv_conf, pod_dns};
use rkubelet::testing::{ContainerId, Origin, Pod, SandboxId, Source, decode_manifest};
use rkubelet::testing::{CriClient, Endpoint, Timeouts, spawn_tokio_thread};
use rkubelet::testing::{Prepared, convert};

use crate::contestant::LIMIT;
use crate::figures::{Kind, Samples};
use crate::node::{Node, names, now, pause};
use crate::process::cpu_seconds;
use crate::rig::{BUSYBOX, NODE};
use crate::settings::Settings;

/// One pod that the client made.
struct Made {
    sandbox: SandboxId,
    container: ContainerId,
}

/// The client, and where its pods live.
struct Bare<'a> {
    node: &'a Node,
    cri: CriClient,
}

/// What one pod takes: started, its process killed, edited.
pub(crate) fn single(settings: &Settings, samples: &mut Samples) -> Result<(), String> {
    let node = Node::new("limit");
    let bare = Bare::new(&node);
    for name in names(settings.samples) {
        let begin = now();
        let made = bare.run(&name, 0)?;
        samples.add(Kind::Start.alone(), LIMIT, node.wait_stamps(&name, 1)? - begin);

        let pod = bare.pod(&name, 0)?;
        let begin = now();
        node.kill(&name)?;
        let made = smol::block_on(async {
            let running = ContainerState::ContainerRunning as i32;
            while bare.cri.container_status(&made.container).await?.state == running {
                smol::Timer::after(Duration::from_millis(1)).await;
            }
            bare.start(&pod, made.sandbox, 1).await
        });
        let made = made.map_err(|error| error.to_string())?;
        samples.add(Kind::Restart.alone(), LIMIT, node.wait_stamps(&name, 2)? - begin);

        let begin = now();
        smol::block_on(async {
            bare.cri.stop_container(&made.container, 1).await?;
            bare.cri.stop_pod_sandbox(&made.sandbox).await
        })
        .map_err(|error| error.to_string())?;
        bare.run(&name, 1)?;
        samples.add(Kind::Edit.alone(), LIMIT, node.wait_stamps(&name, 3)? - begin);
    }
    Ok(())
}

/// Many pods, so many at a time; returns how long it took.
pub(crate) fn many(count: usize, width: usize) -> Result<f64, String> {
    make(&Node::new("limit"), count, width)
}

/// What containerd takes at rest with so many pods when nobody asks it anything.
pub(crate) fn rest(settings: &Settings, samples: &mut Samples, count: usize) -> Result<(), String> {
    let node = Node::new("limit");
    make(&node, count, 4)?;
    pause(settings.settle);
    let containerd = node.rig.containerd_pid().ok_or("containerd has ended")?;
    let ([before], begin) = (cpu_seconds(&node.stamp(), [containerd]), now());
    pause(settings.idle);
    let [after] = cpu_seconds(&node.stamp(), [containerd]);
    samples.add(Kind::ContainerdCpu.with(count), LIMIT, (after - before) / (now() - begin) * 100.0);
    Ok(())
}

fn make(node: &Node, count: usize, width: usize) -> Result<f64, String> {
    let bare = Bare::new(node);
    let names = names(count);
    let next = AtomicUsize::new(0);
    pause(Duration::from_secs(1));
    let begin = now();
    std::thread::scope(|scope| {
        let work = || {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                bare.run(name, 0)?;
            }
            Ok::<_, String>(())
        };
        let workers: Vec<_> = (0..width).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a thread of the bare client"))
    })?;
    Ok(node.wait_all(&names)? - begin)
}

impl<'a> Bare<'a> {
    fn new(node: &'a Node) -> Self {
        static REACTOR: OnceLock<tokio::runtime::Handle> = OnceLock::new();
        let reactor = REACTOR.get_or_init(|| spawn_tokio_thread().expect("start a thread"));
        let endpoint: Endpoint = node.rig.endpoint().parse().expect("the rig's endpoint");
        let cri = CriClient::new(reactor, &endpoint, &endpoint, Timeouts::default(), Arc::new(|_, _, _| {}))
            .expect("a client of the rig's containerd");
        Self { node, cri }
    }

    fn pod(&self, name: &str, edition: usize) -> Result<Pod, String> {
        let path = self.node.rig.manifest_dir().join(format!("{name}.yaml")).display().to_string();
        let origin = Origin {
            node_name: NODE,
            source: Source::File,
            path: &path,
            seen: Timestamp::now(),
            strict: true,
            kubelet_strict: false,
        };
        let decoded = decode_manifest(self.node.manifest(name, edition).as_bytes(), &origin);
        decoded.map(|decoded| decoded.pod).map_err(|refusal| refusal.to_string())
    }

    fn run(&self, name: &str, edition: usize) -> Result<Made, String> {
        let pod = self.pod(name, edition)?;
        let made = smol::block_on(async {
            let sandbox = self.cri.run_pod_sandbox(self.sandbox_config(&pod), "").await?;
            self.start(&pod, sandbox, 0).await
        });
        made.map_err(|error| error.to_string())
    }

    async fn start(
        &self,
        pod: &Pod,
        sandbox: SandboxId,
        attempt: u32,
    ) -> Result<Made, rkubelet::testing::CriError> {
        let image = self.cri.image_status(BUSYBOX).await?;
        let container = &pod.spec.containers[0];
        let hosts = self.node.rig.pod_dir(&pod.uid.0).join("etc-hosts");
        fs::create_dir_all(hosts.parent().expect("a pod's directory")).expect("create a pod's directory");
        fs::write(&hosts, "127.0.0.1 localhost\n").expect("write a pod's hosts");
        let mount = |container: &str, host: &std::path::Path| Mount {
            container_path: container.to_owned(),
            host_path: host.display().to_string(),
            ..Mount::default()
        };
        let prepared = Prepared {
            attempt,
            image_ref: image.map(|image| image.id).unwrap_or_default(),
            command: container.command.clone().unwrap_or_default(),
            mounts: vec![mount("/bench", &self.node.shared()), mount("/etc/hosts", &hosts)],
            ..Prepared::default()
        };
        let log_dir = self.log_dir(pod).join(&container.name);
        fs::create_dir_all(log_dir).expect("create a container's log directory");
        let config = convert::container_config(pod, container, prepared);
        let container = self.cri.create_container(&sandbox, config, self.sandbox_config(pod)).await?;
        self.cri.start_container(&container).await?;
        Ok(Made { sandbox, container })
    }

    fn sandbox_config(&self, pod: &Pod) -> PodSandboxConfig {
        let host = parse_resolv_conf(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
        let cluster = ClusterDns { servers: Vec::new(), domain: String::new() };
        let dns = pod_dns(&pod.spec, &pod.name.namespace, &cluster, host);
        convert::sandbox_config(pod, 0, &self.log_dir(pod).to_string_lossy(), dns, pod.name.name.clone())
    }

    fn log_dir(&self, pod: &Pod) -> std::path::PathBuf {
        self.node.rig.pod_logs_dir().join(format!("{}_{}_{}", pod.name.namespace, pod.name.name, pod.uid.0))
    }
}
