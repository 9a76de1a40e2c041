# Reads FASTA of UniProt and writes a table of labels: the name of a record and whether it is of an
# animal, a bacterium, a plant or a virus, by the genus that its description names (OS=). Records of
# other organisms are left out.
#
#   zcat proteins.fasta.gz | awk -f kingdoms.awk > kingdoms.tsv
function learn(kingdom, genera,    names, count, i) {
  count = split(genera, names, " ")
  for (i = 1; i <= count; ++i) of[names[i]] = kingdom
}

BEGIN {
  learn("animal", "Ailuropoda Ancylostoma Bactrocera Bos Caenorhabditis Callithrix Canis Cavia " \
                  "Chlorocebus Conus Cricetulus Drosophila Felis Fundulus Gorilla Homo Loxodonta " \
                  "Macaca Mus Mustela Myotis Nomascus Oryctolagus Otolemur Ovis Pan Papio Pongo " \
                  "Rattus Strongyloides Sus Xenopus")
  learn("bacterium", "Bacillus Bacteroides Borrelia Burkholderia Campylobacter Chlamydia " \
                     "Clostridium Escherichia Francisella Haemophilus Helicobacter Klebsiella " \
                     "Lactobacillus Lactococcus Leptospira Listeria Mycobacterium Mycoplasma " \
                     "Neisseria Pseudomonas Rickettsia Salmonella Shewanella Shigella " \
                     "Staphylococcus Streptococcus Streptomyces Treponema Ureaplasma Vibrio " \
                     "Xanthomonas Yersinia")
  learn("plant", "Arabidopsis Arabis Brassica Capsella Citrus Erythranthe Eutrema Glycine " \
                 "Gossypium Medicago Oryza Phaseolus Populus Solanum Theobroma Triticum Zea")
}

/^>/ && match($0, / OS=/) {
  organism = substr($0, RSTART + 4)
  sub(/ (OX|GN|PE)=.*/, "", organism)
  split(organism, words, " ")
  kingdom = organism ~ /virus|phage/ ? "virus" : of[words[1]]
  if (kingdom != "") print substr($1, 2) "\t" kingdom
}
