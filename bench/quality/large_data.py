#!/usr/bin/env python3
"""Makes the data of measure_large.py and compare_devices.py from Debian packages.

    bench/quality/large_data.py FOLDER [--records N] [--threads N]

Writes FOLDER/proteins.fasta, a random subset of the proteins of metastudent-data: of those with 30 to 511 residues, each
sequence once, the N (160,000) whose SHA-256 of the name is smallest, in their order there. FOLDER/held_out.txt names the
members of families that no model may learn from: clusters of 30 % identity (mmseqs2), in the order of the SHA-256 of their
representatives, until they are a twentieth of the records. FOLDER/text.txt is the dictionary of dict-gcide, as it is.

Needs metastudent-data, dict-gcide, ncbi-blast+ and mmseqs2, but only what is not in FOLDER yet. Every file is the same
wherever it is made; clusters may differ with other versions of mmseqs2 than that of Debian 12. A few minutes on two cores.
"""
import argparse
import gzip
import hashlib
import heapq
import os
import pathlib
import subprocess
import tempfile

PROTEINS = "/usr/share/metastudent-data/dataset_201401/BPO/goasp.fasta"
DICTIONARY = "/usr/share/dictd/gcide.dict.dz"
LEAST, MOST = 30, 511  # residues
HELD_OUT_SHARE = 0.05


def rank(name):
    return hashlib.sha256(name.encode()).digest()


def write(path, text):
    """Written whole or not at all."""
    part = path.with_suffix(".part")
    part.write_bytes(text)
    part.rename(path)


def proteins(count):
    """Names and sequences of the subset. Names are accessions of UniProt."""
    command = ["blastdbcmd", "-db", PROTEINS, "-entry", "all", "-outfmt", "%f", "-line_length", "1000000"]
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    names = {}  # by sequence: the first of equal ones stays
    for heading, sequence in zip(lines[::2], lines[1::2], strict=True):
        if LEAST <= len(sequence) <= MOST:
            names.setdefault(sequence, heading[1:].split("|")[0])
    chosen = set(heapq.nsmallest(count, names.values(), key=rank))
    return {name: sequence for sequence, name in names.items() if name in chosen}


def held_out(fasta, records, threads):
    """Names of the members of the held-out families."""
    families = {}
    with tempfile.TemporaryDirectory(dir=fasta.parent) as folder:
        subprocess.run(["mmseqs", "easy-cluster", fasta, f"{folder}/clusters", f"{folder}/work", "--min-seq-id", "0.3",
                        "--threads", str(threads), "-v", "1"], check=True)
        for line in pathlib.Path(folder, "clusters_cluster.tsv").read_text(encoding="utf-8").splitlines():
            representative, member = line.split("\t")
            families.setdefault(representative, []).append(member)
    names = []
    for representative in sorted(families, key=rank):
        if len(names) >= HELD_OUT_SHARE * records:
            break
        names += families[representative]
    return sorted(names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--records", type=int, default=160_000)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    a = parser.parse_args()
    folder = pathlib.Path(a.folder)
    folder.mkdir(parents=True, exist_ok=True)
    fasta, names, text = folder / "proteins.fasta", folder / "held_out.txt", folder / "text.txt"
    if not fasta.exists():
        write(fasta, "".join(f">{name}\n{sequence}\n" for name, sequence in proteins(a.records).items()).encode())
    if not names.exists():
        write(names, "".join(f"{name}\n" for name in held_out(fasta, a.records, a.threads)).encode())
    if not text.exists():
        write(text, gzip.decompress(pathlib.Path(DICTIONARY).read_bytes()))
    for path in (fasta, names, text):
        print(f"{path}: {path.stat().st_size} bytes, SHA-256 {hashlib.sha256(path.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
