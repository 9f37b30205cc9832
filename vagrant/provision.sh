#!/bin/sh
# Make a bare Debian system, whose root is /, into a machine of the labs: run once, when a box is
# built. Nothing is downloaded here; the packages are there already, the files of vagrant/root too.
set -eu

# Vagrant's user, who can log in with the key that a host gives its machine (lab-key).
useradd --create-home --shell /bin/bash vagrant
passwd --quiet --lock root
chmod 440 /etc/sudoers.d/vagrant

echo labs >/etc/hostname
printf '127.0.0.1 localhost\n192.168.56.10 server\n192.168.56.11 client\n' >/etc/hosts
echo 'LABEL=labs-root / ext4 errors=remount-ro 0 1' >/etc/fstab

# A small initrd: the disks of QEMU (virtio) and of VirtualBox (IDE), and ext4 with its checksum.
echo MODULES=list >/etc/initramfs-tools/conf.d/labs
printf 'virtio_pci\nvirtio_blk\nata_piix\nsd_mod\next4\ncrc32c_generic\n' >>/etc/initramfs-tools/modules
update-initramfs -u

# What the labs' link and congestion controls need, loaded at boot: no run waits for a module.
printf 'sch_htb\nsch_netem\ncls_u32\nsch_fq\ntcp_bbr\ntcp_dctcp\ntcp_htcp\ninet_diag\ntcp_diag\n' \
    >/etc/modules-load.d/labs.conf

# Each machine makes its own.
rm -f /etc/ssh/ssh_host_*
: >/etc/machine-id
rm -f /var/lib/dbus/machine-id

systemctl --quiet enable systemd-networkd lab-host-keys lab-key
# Runs start servers for themselves; nothing wakes up in the middle of one.
systemctl --quiet mask nginx iperf3 apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
    e2scrub_all.timer e2scrub_reap fstrim.timer logrotate.timer systemd-tmpfiles-clean.timer \
    apache2 apache-htcacheclean
apt-get clean
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/log/*.log /usr/share/doc/* /usr/share/man/*
