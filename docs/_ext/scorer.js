// How the search orders what it finds: pages that answer before those that record.
// The numbers are those of Sphinx; the function is ours.
var Scorer = {
  score: ([docname, , , , score, , kind]) => {
    if (/^(benchmarks|changelog)/.test(docname)) return score - 15;
    // Below pages that have the word in their title, above those that mention it.
    return kind === "object" ? score - 15 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
