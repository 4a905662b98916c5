#include "layer_time.hpp"

#include <algorithm>

namespace trimtab::estimates {

LayerTimes::LayerTimes(const Machine& machine, const ModelShape& shape, const UniformPlan& plan,
                       const Constants& constants)
    : shape_(shape),
      plan_(plan),
      constants_(constants),
      traits_(traits_of(plan)),
      kernels_(machine.gpu, constants, traits_.newest_attention && !plan.flash2),
      collectives_(machine, constants, plan.switch_sums),
      tokens_(static_cast<double>(plan.microbatch) * shape.sequence / plan.context) {}

double LayerTimes::linear(double in, double out, bool backward, Precision precision) const {
  if (!backward) return kernels_.product(tokens_, in, out, precision);
  return kernels_.product(tokens_, out, in, precision) + kernels_.product(in, tokens_, out, precision);
}

// For each token: 16 bits are read and 8 are written. Products on Hopper want both operands along the depth, so what
// goes into the gradient of a matrix is written transposed, too (docs/estimates.md has the sources).
double LayerTimes::cast_bytes(const Matrix& matrix, bool backward) const {
  if (plan_.precision != Precision::kFloat8) return 0;
  const auto [in, out, column] = matrix;
  // Scales along the depth differ between the products that a tensor goes into. Those along columns need two readings.
  if (plan_.rowwise_scales) return backward ? 5 * in + 8 * out : 3 * in;
  if (!traits_.norms_cast) return 4 * (backward ? out : in);
  // A norm writes 8 bits in place of 16, and its output is transposed in the backward pass.
  const double shared = plan_.sequence_parallel ? plan_.tensor : 1;
  if (column) return backward ? 2 * in + 4 * out : -in / shared;
  if (shared == 1) return 4 * (backward ? out : in);
  // A share's gradients are cast, gathered in 8 bits, and then transposed.
  return backward ? 2 * in + (3 / shared + 2) * out : 3 * in;
}

// Of rows that are gathered: the rank's own, and then those before and behind them, apart. The slowest rank counts.
double LayerTimes::parted_product(double in, double out) const {
  const double own = tokens_ / plan_.tensor;
  double others = 0;
  for (std::int32_t before = 0; before < plan_.tensor; ++before) {
    const double behind = plan_.tensor - 1 - before;
    others = std::max(others, kernels_.product(own * before, in, out, plan_.precision) +
                                  kernels_.product(own * behind, in, out, plan_.precision));
  }
  return kernels_.product(own, in, out, plan_.precision) + others;
}

std::array<LayerTimes::Matrix, 4> LayerTimes::matrices() const {
  const double queries = static_cast<double>(shape_.heads) * shape_.head_dim / plan_.tensor;
  const double keys = std::max<double>(static_cast<double>(shape_.kv_heads) / plan_.tensor, 1) * shape_.head_dim;
  const double ffn = static_cast<double>(shape_.ffn) / plan_.tensor;
  const double hidden = shape_.hidden;
  return {{{hidden, queries + 2 * keys, true},
           {queries, hidden, false},
           {hidden, ffn * (shape_.gated ? 2 : 1), true},
           {ffn, hidden, false}}};
}

double LayerTimes::products(bool backward) const {
  double all = 0;
  for (const Matrix& matrix : matrices()) {
    const auto [in, out, column] = matrix;
    all += kernels_.moved(tokens_ * cast_bytes(matrix, backward));
    if (!overlaps_own_share() || column == backward) {
      all += linear(in, out, backward, plan_.precision);
    } else if (column) {
      all += parted_product(in, out);
    } else {
      all += parted_product(out, in) + kernels_.product(in, tokens_, out, plan_.precision);
    }
  }
  return all;
}

double LayerTimes::attention(bool backward) const {
  const double heads = static_cast<double>(shape_.heads) / plan_.tensor;
  const double queries = static_cast<double>(shape_.sequence) / plan_.context;
  const double one = plan_.fused_attention
                         ? kernels_.fused_attention(heads, shape_.head_dim, queries, shape_.sequence, backward)
                         : kernels_.plain_attention(heads, shape_.head_dim, queries, shape_.sequence, backward);
  return plan_.microbatch * one;
}

// Of one matrix with sequence parallelism: an all-gather before a column-parallel product, a reduce-scatter behind a
// row-parallel one. Backward the other way around, and a column-parallel product's inputs are gathered once more.
double LayerTimes::exposed_gathers(const Matrix& matrix, bool backward, double gather, double scatter) const {
  const auto [in, out, column] = matrix;
  if (column == backward) {
    if (!backward) return scatter;
    if (!overlaps_own_share() && !traits_.overlaps_backward) return gather + scatter;
    return kernels_.beside(gather, kernels_.product(tokens_, out, in, plan_.precision)) +
           kernels_.beside(scatter, kernels_.product(in, tokens_, out, plan_.precision));
  }
  if (!overlaps_own_share()) return gather;
  const double own = tokens_ / plan_.tensor;
  return kernels_.beside(gather, column ? kernels_.product(own, in, out, plan_.precision)
                                        : kernels_.product(own, out, in, plan_.precision));
}

// Without sequence parallelism an all-reduce behind row-parallel products, and backward one behind column-parallel
// ones.
double LayerTimes::tensor_communication(bool backward, double products) const {
  if (plan_.tensor <= 1) return 0;
  const Group group = collectives_.group(plan_.tensor, 1);
  const double bytes = tokens_ * shape_.hidden * 2;
  // Inputs of products are cast before they are gathered.
  const bool gathers_cast = plan_.precision == Precision::kFloat8 && !plan_.rowwise_scales;
  const double gather = collectives_.all_gather(group, gathers_cast ? bytes / 2 : bytes);
  const double scatter = collectives_.all_gather(group, bytes);
  const double sum = collectives_.all_reduce(group, bytes);
  double all = 0;
  double apart = 0;  // of what else is hidden in pieces
  double exposed = 0;
  for (const Matrix& matrix : matrices()) {
    if (plan_.sequence_parallel) {
      double& pieces = backward && matrix.column && !traits_.hides_columns_backward ? apart : all;
      if (matrix.column == backward) pieces += scatter;
      if (matrix.column != backward || backward) pieces += gather;
      exposed += exposed_gathers(matrix, backward, gather, scatter);
    } else if (matrix.column == backward) {
      const bool beside = backward && traits_.overlaps_backward;
      all += sum;
      exposed +=
          !beside ? sum : kernels_.beside(sum, kernels_.product(matrix.in, tokens_, matrix.out, plan_.precision));
    }
  }
  // In pieces, beside all of the products.
  if (!plan_.overlaps_tensor || traits_.overlaps_own_share) return exposed;
  return apart + all - std::min(all, products) * constants_.hidden_tensor * (1 - constants_.overlap_loss);
}

// Keys and values go around the ring while attention to those of before is computed.
double LayerTimes::context_communication(bool backward, double attention) const {
  if (plan_.context <= 1) return 0;
  const double keys = 2.0 * std::max<double>(static_cast<double>(shape_.kv_heads) / plan_.tensor, 1) * shape_.head_dim;
  const double bytes = tokens_ * keys * 2 * (backward ? 2 : 1);
  const double steps = plan_.context - 1;
  const double one = collectives_.transfer(plan_.tensor * plan_.context > 8 ? plan_.tensor * 4.0 : plan_.tensor, bytes);
  const double beside = attention * steps / plan_.context * constants_.hidden_share;
  return std::max(steps * one - beside, steps * constants_.collective_latency_s);
}

LayerTimes::Parts LayerTimes::parts(bool backward) const {
  Parts parts;
  parts.products = products(backward);
  parts.attention = attention(backward);
  const double shared = plan_.sequence_parallel ? plan_.tensor : 1;
  const double queries = static_cast<double>(shape_.heads + 2 * shape_.kv_heads) * shape_.head_dim / plan_.tensor;
  const double ffn = static_cast<double>(shape_.ffn) / plan_.tensor * (shape_.gated ? 1 : 2.0 / 3);
  double times = backward ? 1.5 : 1;  // gradients come in beside the values that were kept
  switch (traits_.host) {
    case HostWork::kEager:
      times *= constants_.eager_moved;
      break;
    case HostWork::kFused:
      times *= constants_.fused_moved;
      break;
    case HostWork::kCompiled:
      times *= constants_.compiled_moved;
      break;
  }
  const double hidden = tokens_ * shape_.hidden * traits_.hidden_bytes / shared;
  const double activated = tokens_ * ffn * traits_.ffn_bytes;
  parts.activations = kernels_.moved(times * (hidden * 0.4 + activated));
  const double rotated = shape_.positions > 0 ? 0 : tokens_ * queries * traits_.heads_bytes;
  parts.moved = kernels_.moved(times * (hidden + activated + rotated));
  parts.tensor = tensor_communication(backward, parts.products);
  parts.context = context_communication(backward, parts.attention);
  return parts;
}

LayerTime LayerTimes::layer() const {
  const Parts forward = parts(false);
  const Parts backward = parts(true);
  LayerTime time;
  time.forward = {forward.products + forward.attention + forward.moved, forward.tensor, forward.context};
  time.backward = {backward.products + backward.attention + backward.moved, backward.tensor, backward.context};
  PassTime& again = time.recomputed;
  switch (plan_.recomputed) {
    case Recomputed::kNothing:
      break;
    case Recomputed::kAttentionCore:
      again.computed = forward.attention;
      break;
    case Recomputed::kActivations:
      again.computed = forward.activations;
      break;
    case Recomputed::kHalfOfProducts:
      again = {forward.products / 2 + forward.moved, forward.tensor / 2, 0};
      break;
    case Recomputed::kLayer:
      again = time.forward;
      break;
  }
  again = again * plan_.recomputed_share;
  return time;
}

LayerTime LayerTimes::head() const {
  const double columns = static_cast<double>(shape_.vocabulary) / plan_.tensor;
  const double loss = kernels_.moved(tokens_ * columns * traits_.loss_bytes / 2);
  LayerTime time;
  // The head is in no reduced precision.
  time.forward.computed = linear(shape_.hidden, columns, false, Precision::kBfloat16) + loss;
  time.backward.computed = linear(shape_.hidden, columns, true, Precision::kBfloat16) + loss;
  if (plan_.tensor > 1) {
    const Group group = collectives_.group(plan_.tensor, 1);
    const double gather = collectives_.all_gather(group, tokens_ * shape_.hidden * 2);
    time.forward.tensor = gather + 3 * collectives_.all_reduce(group, tokens_ * 4);
    time.backward.tensor = gather;
  }
  return time;
}

LayerTime LayerTimes::embedding() const {
  LayerTime time;
  time.forward.computed = kernels_.moved(tokens_ * shape_.hidden * 4);
  time.backward.computed = kernels_.moved(tokens_ * shape_.hidden * 8);
  if (plan_.tensor > 1) {
    time.forward.tensor = collectives_.all_gather(collectives_.group(plan_.tensor, 1), tokens_ * shape_.hidden * 2);
  }
  return time;
}

}  // namespace trimtab::estimates
