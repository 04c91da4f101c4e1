//! The cluster itself.

use pulsepath_tests::eventually;
use pulsepath_tests::kubernetes::{PATIENCE, Site};

/// A Pod as the chart's: in the node's network, with its BPF file system and the API server's address.
const POD: &str = r"
apiVersion: v1
kind: Pod
metadata: { name: inside, namespace: default }
spec:
  nodeName: n1
  hostNetwork: true
  containers:
    - name: inside
      image: pulsepath.dev/pause:test
      securityContext: { privileged: true }
      volumeMounts:
        - { name: bpf, mountPath: /sys/fs/bpf, mountPropagation: HostToContainer }
  volumes:
    - { name: bpf, hostPath: { path: /sys/fs/bpf, type: Directory } }
";

#[test]
fn a_pod_runs_in_its_nodes_network_until_it_is_deleted() {
    let site = Site::start("k8s", 1, &["test"]).unwrap();
    site.plane().apply(POD).unwrap();
    let address = || {
        site.plane()
            .kubectl(&["get", "pod", "inside", "-o", "jsonpath={.status.podIP}"])
    };
    eventually(PATIENCE, || {
        (address().unwrap() == "10.77.0.1").then_some(())
    });
    let processes = || site.machine(1).unwrap().processes("pause").len();
    eventually(PATIENCE, || processes() == 2);
    site.plane().kubectl(&["delete", "pod", "inside"]).unwrap();
    eventually(PATIENCE, || processes() == 0);
}
