#!/bin/sh
# The first process of a node: what it has of its own, then containerd and the kubelet.
#
# It runs in a network, mount and process namespace of the node. Whatever a node writes goes to its
# directory, so that this machine keeps nothing of it; what goes to /var/lib outlives the process, as on
# a machine that is started again.
#
# usage: node.sh DIRECTORY IMAGES DEBIAN BIN
set -eu
directory=$1 images=$2 debian=$3 bin=$4
PATH="$bin:$debian/usr/bin:$debian/usr/sbin:$PATH"

mount --make-rprivate /
mkdir -p "$directory/run" "$directory/work"
mount --bind "$directory/run" /run
for part in lib log; do
    mkdir -p "$directory/$part" "$directory/work/$part"
    mount -t overlay -o "lowerdir=/var/$part,upperdir=$directory/$part,workdir=$directory/work/$part" \
        node "/var/$part"
done
mount -t bpf bpf /sys/fs/bpf
# A kubelet changes settings that concern the whole machine.
for part in kernel vm; do
    mount --bind "/proc/sys/$part" "/proc/sys/$part"
    mount -o remount,bind,ro "/proc/sys/$part"
done
# Containers see what is mounted later, as they do where systemd is the first process.
mount --make-rshared /

containerd --config "$directory/containerd.toml" >>"$directory/containerd.log" 2>&1 &
socket=/run/containerd/containerd.sock
until ctr --address "$socket" version >/dev/null 2>&1; do
    kill -0 $! || exit 1
    sleep 0.1
done
for image in "$images"/*.tar; do
    ctr --address "$socket" --namespace k8s.io images import "$image"
done
kubelet --config="$directory/kubelet.yaml" --kubeconfig="$directory/kubeconfig" \
    --root-dir="$directory/kubelet" --hostname-override="$(cat "$directory/name")" \
    --node-ip="$(cat "$directory/addresses")" >>"$directory/kubelet.log" 2>&1 &
# It also takes in the orphans of this process namespace.
wait $!
