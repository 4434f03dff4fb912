// The policies that Treadle brings; others can be typed. A test holds this list to the table.

export const POLICIES = [
  "fifo", "backfill", "sjf", "srtf", "srsf", "las", "gittins", "tiresias",
  "max-min", "optimus", "themis", "altruistic", "aiturbo", "afs", "afs-p", "antman",
  "muri-s", "muri-l", "rubick", "rubick-e", "rubick-r", "rubick-n", "sia", "synergy",
  "philly", "weave", "weave-l",
];
