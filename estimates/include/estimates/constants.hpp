#pragma once

// What no data sheet says. Each constant was fitted to published measurements of the families sc21, mcore_h100,
// internevo, fms_fsdp, kwai, mtnlg and mcore_golden, or to bus bandwidths, and to nothing else: all other published
// plans judge them (docs/accuracy.md). bench/fit_estimates.py makes the fit.

namespace trimtab::estimates {

struct Constants {
  // Matrix products: share of the dense peak that large ones reach, by generation. float8_product is a share of that:
  // what the best shapes reach of each peak was published as 1402.6 and 794.5 TFLOP/s on H100 (0.88), 1453.4 and 794.5
  // on H200 (0.91), 1535.0 and 828.6 on GH200 (0.93) (stas00/ml-engineering, compute/accelerator/README.md).
  double ampere_product = 0.807;
  double hopper_product = 0.611;
  double blackwell_product = 0.405;  // of mcore_golden's two rows alone
  double other_product = 0.60;
  double float8_product = 0.9;
  double product_depth = 169;  // of depth: half of the rate is lost at this one
  // Attention: share of the peak that a fused kernel reaches at long sequences and 128 elements a head, on Ampere, on
  // Hopper and later by FlashAttention-2 and by cuDNN's, which is what the authors of FlashAttention-3 published of
  // both.
  double ampere_attention = 0.605;
  double hopper_attention = 0.353;
  double newest_attention = 0.506;
  double attention_backward = 0.75;  // of the forward pass's share
  double attention_length = 321;     // at this many keys half of the rate is lost
  double memory_share = 0.85;        // of the memory's bandwidth that a kernel reaches
  // What kernels that only move memory move beside what a layer's operators must, by how modules run.
  double eager_moved = 2.1;
  double fused_moved = 1.11;
  double compiled_moved = 1.5;
  // Links: share of the data sheet's bandwidth that a large ring reaches, and what sums in a switch gain.
  double nvlink_share = 0.638;
  double pcie_share = 0.60;
  double switch_gain = 1.5;
  double network_share = 0.907;
  // A ring over n nodes reaches (n/2)^-loss of what it reaches over two.
  double infiniband_loss = 0.0425;
  double roce_loss = 0.137;
  // EFA, from the bus bandwidths of its clusters alone: 1 / bandwidth grows with the number of devices, so what grows
  // is the time of a ring's steps. They were read for messages of 145 MB, where a step takes what NCCL's do on EFA.
  double efa_share = 0.49;           // of the network, in place of network_share: gathering and scattering
  double efa_sum_share = 0.90;       // sums
  double efa_latency_s = 25e-6;      // for each step between devices
  double efa_sum_latency_s = 16e-6;  // of sums
  double collective_latency_s = 1.2e-05;
  double nvlink_latency_s = 1.5e-6;     // for each further device of a node
  double network_latency_s = 7.94e-06;  // for each step between nodes
  // What runs beside computation: the share of communication that can be hidden, and what computation loses meanwhile,
  // as a share of the communication's time.
  double hidden_share = 0.925;
  double hidden_tensor = 0.95;  // of tensor-parallel communication, in pieces beside its products
  double overlap_loss = 0.118;
  // The host: seconds for one layer's launches in a forward pass. A backward pass takes as long. Eager: a Llama of
  // transformers took 50 ms a step of 16 small layers on one H100 (both passes). A collective's call comes on top.
  double eager_layer_s = 1500e-6;
  double fused_layer_s = 500e-6;
  double compiled_layer_s = 300e-6;
  double host_collective_s = 100e-6;
  double step_overhead_s = 0.0102;  // data, clipping, logging
  double resident_chunks = 5;       // model chunks whose activations stay on the device while the others are offloaded
  double straggling = 0.00813;      // of a step, for each doubling of the nodes
  double spread = 0.173;            // of log(measured / estimated) on the families above
  double own_spread = 0.119;        // of these, what differs between plans of one family
};

}  // namespace trimtab::estimates
