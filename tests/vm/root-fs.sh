#!/bin/sh
# Makes the root file system of the virtual machine: root-fs.sh DIRECTORY FILES
#
# DIRECTORY gets `vmlinuz` and `disk.raw`; FILES is copied over the installed system. Packages come from where the apt
# of this machine has its own from, of the next suite. Exit code 69: they cannot be had.
set -eu
out=$1 files=$2
suite=trixie

site=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' 'Component: main' | head -n 1)
[ -n "$site" ] || { echo "apt has no package source of Debian"; exit 69; }

rm -rf "$out/root"
mkdir -p "$out"
packages=systemd-sysv,dbus,udev,kmod,procps,curl,iproute2,iptables
packages=$packages,containerd,runc,containernetworking-plugins,nfs-common,nfs-kernel-server
# The kernel without its package: there is no initrd to be made.
cat > "$out/download-kernel" <<'END'
#!/bin/sh
chroot "$1" sh -eu -c '
  cd /tmp
  kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n "s/.*Depends: \(linux-image-[0-9].*\)/\1/p" | head -n 1)
  apt-get -q -q -o APT::Sandbox::User=root download "$kernel"
  mkdir /opt/kernel; mv linux-image-*.deb /opt/kernel/'
END
chmod 755 "$out/download-kernel"
mmdebstrap --quiet --mode=root --variant=apt \
  --aptopt='Acquire::Languages "none"' --aptopt='APT::Install-Recommends "false"' \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
  --include="$packages" --customize-hook="$out/download-kernel" \
  "$suite" "$out/root" "deb $site $suite main" || exit 69
dpkg-deb -x "$out"/root/opt/kernel/linux-image-*.deb "$out/kernel"
rm -rf "$out/root/opt/kernel" "$out/download-kernel"
cp -a "$out"/kernel/boot/vmlinuz-* "$out/vmlinuz"
if [ -d "$out/kernel/lib/modules" ]; then modules=$out/kernel/lib/modules; else modules=$out/kernel/usr/lib/modules; fi
mkdir -p "$out/root/usr/lib/modules"
cp -a "$modules/." "$out/root/usr/lib/modules/"
chroot "$out/root" depmod "$(ls "$out/root/usr/lib/modules")"
rm -rf "$out/kernel"

cp -a "$files/." "$out/root/"
chroot "$out/root" systemctl --quiet enable containerd vm-network vm-console vm-shell vm-payload vm-clock
# Nothing of it is needed here, and it takes as long as the rest of the boot. The same for timers.
chroot "$out/root" systemctl --quiet mask systemd-udev-trigger systemd-logind getty@tty1 serial-getty@ttyS0 \
  serial-getty@hvc0 apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer systemd-timesyncd \
  systemd-firstboot systemd-binfmt nfs-blkmap
# A scenario starts what it needs of NFS; each takes seconds of every boot.
chroot "$out/root" systemctl --quiet disable nfs-server nfs-client.target rpcbind.service rpcbind.socket
: > "$out/root/etc/machine-id"
# The kernel mounts the only file system, and nobody announces devices: systemd would wait for them.
: > "$out/root/etc/fstab"
rm -rf "$out/root/var/cache/apt" "$out/root/var/lib/apt/lists"
mkdir -p "$out/root/var/cache/apt" "$out/root/var/lib/apt/lists" "$out/root/opt/rkubelet"

truncate -s 4G "$out/disk.raw"
mke2fs -q -t ext4 -L root -d "$out/root" "$out/disk.raw"
rm -rf "$out/root"
