#!/bin/sh
# Builds rkubelet_VERSION_ARCH.deb: deb.sh BINARY PAGES VERSION OUTPUT-DIRECTORY
# BINARY is the executable, PAGES the directory that the example `pages` wrote. Prints the path of the package.
set -eu

binary=$1 pages=$2 version=$3 output=$4
source=$(cd "$(dirname "$0")/.." && pwd)
arch=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/rkubelet
# The same input makes the same bytes.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH
umask 022

file() { # MODE SOURCE DESTINATION
  install -D -m "$1" "$2" "$tree$3"
}

doc=/usr/share/doc/rkubelet
file 755 "$binary" /usr/bin/rkubelet
sed 's|/usr/local/bin/rkubelet|/usr/bin/rkubelet|' "$source/systemd/rkubelet.service" >"$work/unit"
file 644 "$work/unit" /usr/lib/systemd/system/rkubelet.service
sed '1s|^# Copy to /etc/default/rkubelet. |# |' "$source/systemd/rkubelet.env" >"$work/env"
file 644 "$work/env" /etc/default/rkubelet
install -d -m 755 "$tree/etc/kubernetes/manifests"
file 644 "$pages/rkubelet.8" /usr/share/man/man8/rkubelet.8
file 644 "$pages/rkubelet.bash" /usr/share/bash-completion/completions/rkubelet
file 644 "$source/package/copyright" $doc/copyright
file 644 "$source/CHANGELOG.md" $doc/changelog
file 644 "$source/README.md" $doc/README.md
file 644 "$source/package/config.yaml" $doc/examples/config.yaml
for manifest in "$source"/manifests/*.yaml; do
  file 644 "$manifest" "$doc/examples/manifests/$(basename "$manifest")"
done
gzip -9n "$tree/usr/share/man/man8/rkubelet.8" "$tree$doc/changelog"

mkdir "$tree/DEBIAN"
for script in postinst prerm postrm; do
  install -m 755 "$source/package/maintainer/$script" "$tree/DEBIAN/$script"
done
echo /etc/default/rkubelet >"$tree/DEBIAN/conffiles"
(cd "$tree" && find etc usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)

# The newest C library symbol that the executable asks for is the oldest library that will do.
libc=$(grep -ao 'GLIBC_[0-9][0-9.]*' "$binary" | sort -Vu | tail -n 1 | cut -d _ -f 2)
depends="libc6 (>= $libc)"
if grep -aq 'libgcc_s\.so\.1' "$binary"; then depends="$depends, libgcc-s1"; fi
cat >"$tree/DEBIAN/control" <<EOF
Package: rkubelet
Version: $version
Architecture: $arch
Maintainer: the rkubelet authors <rkubelet@localhost>
Installed-Size: $(du -k -s --apparent-size --exclude=DEBIAN "$tree" | cut -f 1)
Depends: $depends, init-system-helpers (>= 1.52)
Recommends: containerd (>= 1.6~) | containerd.io, containernetworking-plugins
Suggests: cri-tools, bash-completion
Conflicts: kubelet
Section: admin
Priority: optional
Description: Kubernetes node agent for static pods
 rkubelet reads Pod manifests from a directory and from a URL, runs them on
 containerd through CRI, and keeps them running. It takes the flags and the
 configuration file of kubelet 1.36, and needs a tenth of its memory.
EOF

find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$output"
package=$output/rkubelet_${version}_$arch.deb
# shellcheck disable=SC2086 # Several options.
dpkg-deb --root-owner-group ${DEB_COMPRESSION:--Zxz} --build "$tree" "$package" >/dev/null
echo "$package"
