//! TCP receiver and sender halves: reassembly, SACK, RACK-TLP, RTO, persist, pacing.
