"""Kernels of Debian, unpacked from their packages: the newest of each version that a suite of the configured mirror has."""

import os
import re
import shutil
import subprocess
import tempfile

SUITES = ("bookworm", "trixie", "sid", "experimental")
IMAGE = "linux-image-amd64"


def output(words, **options):
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


class Packages:
    """Lists of packages of their own for apt: the machine's sources and lists stay as they are."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        os.makedirs(f"{self.folder}/lists/partial", exist_ok=True)
        targets = output(["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"])
        mirror = re.search(r"^Debian (\S+)", targets, re.M)
        if mirror is None:
            raise SystemExit("test-kernels: apt's sources name no Debian mirror: add one, and run `apt-get update`")
        with open(f"{self.folder}/sources.list", "w", encoding="utf-8") as file:
            file.writelines(f"deb {mirror[1]} {suite} main\n" for suite in SUITES)
        nothing = ("Etc::sourceparts", "Etc::preferences", "Etc::preferencesparts", "State::status")
        settings = [f"Dir::{name}=/dev/null" for name in nothing] + [
            f"Dir::State::lists={self.folder}/lists", f"Dir::Cache={self.folder}",
            f"Dir::Etc::sourcelist={self.folder}/sources.list", "APT::Sandbox::User=root", "Acquire::Languages=none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false"]
        self.options = [word for setting in settings for word in ("-o", setting)]
        self.get("update")
        self.images = self.stanzas(IMAGE)

    def get(self, *words, **options):
        # What apt says of signatures and mirrors is for who runs this.
        subprocess.run(["apt-get", *self.options, "-qq", *words], check=True, **options)

    def stanzas(self, package):
        """What the suites say of a package, as (version, what it depends on), the newest first."""
        shown = output(["apt-cache", *self.options, "show", package]).split("\n\n")
        fields = [dict(re.findall(r"^(Version|Depends): (.*)$", stanza, re.M)) for stanza in shown if stanza.strip()]
        return [(stanza["Version"], stanza.get("Depends", "")) for stanza in fields]

    def release(self, wanted):
        """The newest kernel of a version such as 6.12, or of all: what `uname -r` says of it, and its package's version."""
        for version, depends in self.images:
            if wanted == "newest" or re.match(re.escape(wanted) + r"(?!\d)", version):
                return re.search(r"linux-image-(\d[^ ,]*)", depends)[1], version
        have = ", ".join(version for version, _ in self.images)
        raise SystemExit(f"test-kernels: no suite has Linux {wanted}, only {have}")

    def unpacked(self, wanted):
        """The folder of that kernel, named after it, and its package's version."""
        release, version = self.release(wanted)
        folder = f"{self.folder}/{release}"
        if not os.path.exists(f"{folder}/complete"):
            shutil.rmtree(folder, ignore_errors=True)
            self.unpack(release, folder)
        return folder, version

    def unpack(self, release, folder):
        _, depends = self.stanzas(f"linux-image-{release}")[0]
        # Newer packages have the image, the modules and the configuration apart.
        packages = {f"linux-image-{release}", *re.findall(r"linux-(?:binary|modules|base)-\d[^ ,]*", depends)}
        with tempfile.TemporaryDirectory(dir=self.folder) as downloads:
            self.get("download", *sorted(packages), cwd=downloads)
            for package in os.listdir(downloads):
                subprocess.run(["dpkg-deb", "--extract", f"{downloads}/{package}", folder], check=True)
        # depmod and modprobe look below `lib`.
        if not os.path.exists(f"{folder}/lib"):
            os.symlink("usr/lib", f"{folder}/lib")
        subprocess.run(["depmod", "--basedir", folder, release], check=True)
        with open(f"{folder}/complete", "w", encoding="utf-8"):
            pass
