#include "schema/gpt_model.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "documents/model_bounds.hpp"
#include "schema/models/parameters.hpp"

namespace trimtab {

namespace {

// A product or a sum of sizes that somebody wrote: it knows whether it still fits into 64 bits, and so does everything
// that is made of it.
class Amount {
 public:
  // Sizes stand in formulas as they are.
  constexpr Amount(std::int64_t value = 0) : value_(value) {}

  [[nodiscard]] constexpr bool fits() const { return fits_; }
  // REQUIRES: fits().
  [[nodiscard]] std::int64_t value() const {
    TRIMTAB_ASSERT(fits_, "an amount beyond 64 bits has no value");
    return value_;
  }

  friend constexpr Amount operator+(Amount a, Amount b) {
    Amount sum;
    const bool overflows = __builtin_add_overflow(a.value_, b.value_, &sum.value_);
    sum.fits_ = a.fits_ && b.fits_ && !overflows;
    return sum;
  }
  friend constexpr Amount operator*(Amount a, Amount b) {
    Amount product;
    const bool overflows = __builtin_mul_overflow(a.value_, b.value_, &product.value_);
    product.fits_ = a.fits_ && b.fits_ && !overflows;
    return product;
  }

 private:
  std::int64_t value_;
  bool fits_ = true;
};

// Of one operator, or of all of them.
struct Figures {
  Amount parameter_bytes, activation_bytes, replicated_bytes, output_bytes, forward_flops, key_value_bytes;

  [[nodiscard]] bool fit() const {
    return parameter_bytes.fits() && activation_bytes.fits() && replicated_bytes.fits() && output_bytes.fits() &&
           forward_flops.fits() && key_value_bytes.fits();
  }
  friend Figures operator+(const Figures& a, const Figures& b) {
    return {a.parameter_bytes + b.parameter_bytes,   a.activation_bytes + b.activation_bytes,
            a.replicated_bytes + b.replicated_bytes, a.output_bytes + b.output_bytes,
            a.forward_flops + b.forward_flops,       a.key_value_bytes + b.key_value_bytes};
  }
  friend Figures operator*(Amount n, const Figures& of) {
    return {n * of.parameter_bytes, n * of.activation_bytes, n * of.replicated_bytes,
            n * of.output_bytes,    n * of.forward_flops,    n * of.key_value_bytes};
  }
};

class Counting {
 public:
  explicit Counting(const GptSizes& sizes) : s_(sizes), width_(sizes.half ? 2 : 4) {}

  [[nodiscard]] Figures embedding() const {
    return {width_ * (vocabulary_ + s_.positions) * hidden_, rows() + mask(), rows() + mask(), rows(), 0, 0};
  }

  [[nodiscard]] Figures attention() const {
    if (s_.latent) return latent_attention(*s_.latent);
    const Amount queries = Amount(s_.heads) * s_.channels;
    const Amount key_values = Amount(2) * s_.groups * s_.channels;
    const Amount mixed = queries + key_values;
    const Amount query_norms = s_.whole_query_norm ? norm(queries) + norm(Amount(s_.groups) * s_.channels)
                               : s_.query_norm     ? 2 * norm(s_.channels)
                                                   : Amount(0);
    return attention_of({hidden_ * mixed, queries * hidden_, (s_.qkv_bias ? mixed : Amount(0)) + query_norms, mixed,
                         queries, key_values, 2 * queries});
  }

  [[nodiscard]] Figures mlp() const {
    const Amount narrow = s_.ffn;
    const Amount wide = widened(narrow);
    return {width_ * (norms(s_.one_norm ? 0 : 1) + products(narrow) + (s_.bias ? wide + hidden_ : Amount(0))),
            width_ * sequence_ * (wide + narrow) + 2 * rows() + mask(),
            2 * rows() + mask(),
            rows(),
            2 * sequence_ * products(narrow),
            0};
  }

  // Of one of those that are chosen from.
  [[nodiscard]] Amount expert(const GptExperts& of) const {
    return width_ * (products(of.ffn) + (of.bias ? widened(of.ffn) + hidden_ : Amount(0)));
  }

  // Tokens go to their experts and come back as rows of their own, and the router keeps its scores in float32.
  [[nodiscard]] Figures experts(const GptExperts& of) const {
    const Amount biases = Amount((of.router_bias ? 1 : 0) + (of.selection_bias ? 1 : 0)) * of.count;
    const Amount beside = products(of.shared_ffn) + (of.shared_gate ? hidden_ : Amount(0));
    const Amount router = hidden_ * of.count;
    const Amount passed = Amount(of.active) * of.ffn + of.shared_ffn;
    return {width_ * (norms(1) + router + biases + beside) + Amount(of.count) * expert(of),
            width_ * sequence_ * (widened(passed) + passed) + 2 * of.active * rows() + 4 * sequence_ * of.count +
                2 * rows() + mask(),
            2 * rows() + mask(),
            rows(),
            2 * sequence_ * (router + Amount(of.active) * products(of.ffn) + beside),
            0};
  }

  [[nodiscard]] Figures head() const {
    // The loss keeps the logits in float32.
    return {width_ * (norm(hidden_) + vocabulary_ * hidden_ + (s_.head_bias ? vocabulary_ : Amount(0))),
            rows() + 4 * sequence_ * vocabulary_,
            rows(),
            4,
            2 * sequence_ * hidden_ * vocabulary_,
            0};
  }

  [[nodiscard]] Amount shared() const { return width_ * vocabulary_ * hidden_; }

 private:
  // What differs between kinds of attention, in elements.
  struct Attention {
    Amount products_before, product_behind;  // parameters: of queries, keys and values, and of what comes out
    Amount others;                           // biases and norms of these
    Amount kept;                             // of a token, before the core
    Amount core_output, key_values;          // of a token
    Amount core_products;                    // channels of queries and of values, of all heads
  };
  [[nodiscard]] Figures attention_of(const Attention& of) const {
    Figures figures;
    figures.parameter_bytes = width_ * (norms(1) + of.products_before + of.product_behind + of.others +
                                        (s_.bias ? hidden_ : Amount(0)) + (s_.sinks ? Amount(s_.heads) : Amount(0)));
    // Inputs of both products and of the core, the mask behind, and the output. The norm's input is the output before.
    figures.activation_bytes = width_ * sequence_ * (of.kept + of.core_output) + scores() + 2 * rows() + mask();
    figures.replicated_bytes = 2 * rows() + mask();
    figures.output_bytes = rows();
    figures.forward_flops =
        2 * sequence_ * (of.products_before + of.product_behind) + 2 * sequence_ * sequence_ * of.core_products;
    figures.key_value_bytes = width_ * sequence_ * of.key_values;
    return figures;
  }
  // The channels of keys that have positions are one head's, which all heads use.
  [[nodiscard]] Figures latent_attention(const GptLatent& of) const {
    const Amount heads = s_.heads;
    const Amount short_queries = of.queries;
    const Amount queries = heads * (Amount(of.plain) + of.rotated);
    const Amount values = heads * of.values;
    const Amount short_keys = Amount(of.key_values) + of.rotated;
    const Amount made = heads * (Amount(of.plain) + of.values);
    const Amount of_queries = of.queries > 0 ? hidden_ * short_queries + short_queries * queries : hidden_ * queries;
    const Amount norms_of_short = norm(of.key_values) + (of.queries > 0 ? norm(short_queries) : Amount(0));
    return attention_of({of_queries + hidden_ * short_keys + Amount(of.key_values) * made, values * hidden_,
                         of.norms ? norms_of_short : Amount(0), short_queries + short_keys + queries + queries + values,
                         values, queries + values, queries + values});
  }
  [[nodiscard]] Amount widened(Amount narrow) const { return s_.gated ? 2 * narrow : narrow; }
  // Parameters of an mlp's matrices.
  [[nodiscard]] Amount products(Amount narrow) const { return hidden_ * (widened(narrow) + narrow); }
  [[nodiscard]] Amount norm(Amount elements) const { return s_.rms ? elements : 2 * elements; }
  // Before a layer's part, and where the model has them behind it, too.
  [[nodiscard]] Amount norms(std::int64_t before) const {
    return Amount(before + (s_.post_norms ? 1 : 0)) * norm(hidden_);
  }
  [[nodiscard]] Amount rows() const { return width_ * sequence_ * hidden_; }
  // A byte for each element.
  [[nodiscard]] Amount mask() const { return s_.hidden_masks ? sequence_ * hidden_ : Amount(0); }
  // What the softmax and dropout put out, and dropout's mask.
  [[nodiscard]] Amount scores() const {
    if (!s_.keeps_scores) return 0;
    return (s_.score_masks ? 2 * width_ + 1 : width_) * s_.heads * sequence_ * sequence_;
  }

  const GptSizes& s_;
  Amount width_;
  Amount hidden_ = s_.hidden, sequence_ = s_.sequence, vocabulary_ = s_.vocabulary;
};

using Named = std::pair<const char*, std::int64_t>;

// Sizes of which one is mistyped, most likely.
Status check(const Figures& figures, const std::string& of, const std::vector<Named>& arguments) {
  if (figures.fit()) return {};
  std::string list;
  for (const auto& [name, value] : arguments) {
    list += (list.empty() ? "--" : ", --") + std::string(name) + " " + std::to_string(value);
  }
  return bad_input(list + ": " + of +
                   " of these sizes has more bytes or operations than 64 bits can count; correct the " +
                   "one that is mistyped");
}

struct OperatorFigures {
  Figures embedding, attention, mlp, experts, head;
};

bool layer_has_experts(const GptSizes& s, std::int64_t layer) {
  return s.experts && s.experts->in_layer[static_cast<std::size_t>(layer)];
}

Result<OperatorFigures> count(const Counting& counting, const GptSizes& s) {
  const Named hidden{"hidden-size", s.hidden};
  const Named sequence{"seq-length", s.sequence};
  const Named vocabulary{"vocab-size (padded)", s.vocabulary};
  const Named heads{"num-attention-heads", s.heads};
  const Named ffn{"ffn-hidden-size", s.ffn};
  OperatorFigures parts{counting.embedding(), counting.attention(), counting.mlp(), {}, counting.head()};
  std::int64_t with_experts = 0;
  if (s.experts) {
    TRIMTAB_ASSERT(std::ssize(s.experts->in_layer) == s.layers, "of each layer it is known whether it has experts");
    if (s.experts->count > kMostExperts) {
      return bad_input("expected at most " + std::to_string(kMostExperts) + " experts in a layer, found " +
                       std::to_string(s.experts->count));
    }
    with_experts = std::ranges::count(s.experts->in_layer, true);
    parts.experts = counting.experts(*s.experts);
  }
  TRIMTAB_TRY_STATUS(
      check(parts.embedding, "an embedding", {hidden, sequence, vocabulary, {"max-position-embeddings", s.positions}}));
  TRIMTAB_TRY_STATUS(check(parts.attention, "an attention",
                           {hidden, sequence, heads, {"kv-channels", s.channels}, {"num-query-groups", s.groups}}));
  TRIMTAB_TRY_STATUS(check(parts.mlp, "an mlp", {hidden, sequence, ffn}));
  if (s.experts) {
    TRIMTAB_TRY_STATUS(
        check(parts.experts, "a layer with experts",
              {hidden, sequence, {"num-experts", s.experts->count}, {"moe-ffn-hidden-size", s.experts->ffn}}));
  }
  TRIMTAB_TRY_STATUS(check(parts.head, "a head", {hidden, sequence, vocabulary}));
  const Figures whole = parts.embedding + Amount(s.layers) * parts.attention +
                        Amount(s.layers - with_experts) * parts.mlp + Amount(with_experts) * parts.experts + parts.head;
  TRIMTAB_TRY_STATUS(check(whole, "a model", {{"num-layers", s.layers}, hidden, sequence, heads, ffn, vocabulary}));
  return parts;
}

std::string cost_key(const GptSizes& s, const std::string& kind) {
  const std::string norms = std::string(s.post_norms ? "-postnorm"
                                        : s.one_norm ? "-parallel"
                                                     : "") +
                            (s.recipe.empty() ? "" : "-") + s.recipe;
  const std::string key = kind + "-h" + std::to_string(s.hidden) + "-t" + std::to_string(s.sequence);
  if (kind == "attention" && s.latent) {
    const GptLatent& of = *s.latent;
    return key + "-a" + std::to_string(s.heads) + "-q" + std::to_string(of.queries) + "-k" +
           std::to_string(of.key_values) + "-c" + std::to_string(of.plain) + "+" + std::to_string(of.rotated) + "-v" +
           std::to_string(of.values) + norms;
  }
  if (kind == "experts") {
    const GptExperts& of = *s.experts;
    return key + "-f" + std::to_string(of.ffn) + "-e" + std::to_string(of.count) + "-k" + std::to_string(of.active) +
           "-s" + std::to_string(of.shared_ffn) + (s.gated ? "-gated" : "") + norms;
  }
  if (kind == "attention") {
    return key + "-a" + std::to_string(s.heads) + "-g" + std::to_string(s.groups) + "-c" + std::to_string(s.channels) +
           norms;
  }
  if (kind == "mlp") return key + "-f" + std::to_string(s.ffn) + (s.gated ? "-gated" : "") + norms;
  return key + "-v" + std::to_string(s.vocabulary);
}

// REQUIRES: the figures fit.
Operator operator_of(const GptSizes& sizes, const std::string& kind, std::int64_t layer, const Figures& figures) {
  const bool of_layer = kind != "embedding" && kind != "head";
  Operator op;
  op.name = of_layer ? "layer" + std::to_string(layer) + "-" + kind : kind;
  op.kind = kind;
  op.layer = static_cast<std::int32_t>(layer);
  op.cost_key = cost_key(sizes, kind);
  op.shape = {{"sequence", sizes.sequence}, {"hidden", sizes.hidden}};
  op.parameter_bytes = figures.parameter_bytes.value();
  op.activation_bytes = figures.activation_bytes.value();
  op.replicated_activation_bytes = figures.replicated_bytes.value();
  op.output_bytes = figures.output_bytes.value();
  op.forward_flops = figures.forward_flops.value();
  op.tensor_all_reduces = of_layer ? 1 : 0;
  if (kind == "attention") op.key_value_bytes = figures.key_value_bytes.value();
  return op;
}

// The reserved names of schema/models/parameters.hpp.
void add_experts(const GptExperts& experts, const Counting& counting, Operator& op) {
  op.shape[kExperts] = experts.count;
  op.shape[kActiveExperts] = experts.active;
  if (experts.shared > 0) op.shape[kSharedExperts] = experts.shared;
  op.shape[kExpertParameterBytes] = counting.expert(experts).value();
}

// A model has one factor: of Muon's two their mean over all parameters, which is exact where a stage has both ends.
double mean_optimizer(const GptSizes& sizes, const Model& model) {
  if (!sizes.optimizer_of_ends) return sizes.optimizer;
  double ends = 0;
  double all = 0;
  for (const Operator& op : model.operators) {
    const auto bytes = static_cast<double>(op.parameter_bytes);
    all += bytes;
    if (op.kind == "embedding" || op.kind == "head") ends += bytes;
  }
  for (const TiedParameters& tied : model.tied_parameters) {
    all -= static_cast<double>(tied.bytes);
    ends -= static_cast<double>(tied.bytes);
  }
  return sizes.optimizer + (*sizes.optimizer_of_ends - sizes.optimizer) * ends / all;
}

}  // namespace

Result<Model> gpt_model(const GptSizes& sizes, const std::string& name) {
  if (sizes.batch > kMostGlobalBatch) {
    return bad_input("the model " + name + ": expected a global batch of at most " + std::to_string(kMostGlobalBatch) +
                     " samples, found " + std::to_string(sizes.batch));
  }
  const Counting counting(sizes);
  TRIMTAB_TRY(const OperatorFigures parts, count(counting, sizes));
  Model model;
  model.name = name;
  model.global_batch = static_cast<std::int32_t>(sizes.batch);
  model.dtype = sizes.dtype;
  model.gradient_bytes_per_parameter_byte = sizes.gradient;
  model.frees_sent_outputs = true;
  model.operators.push_back(operator_of(sizes, "embedding", 0, parts.embedding));
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    model.operators.push_back(operator_of(sizes, "attention", layer, parts.attention));
    if (layer_has_experts(sizes, layer)) {
      model.operators.push_back(operator_of(sizes, "experts", layer, parts.experts));
      add_experts(*sizes.experts, counting, model.operators.back());
    } else {
      model.operators.push_back(operator_of(sizes, "mlp", layer, parts.mlp));
    }
    model.operators.back().cut_before = false;  // stages begin with whole layers
  }
  model.operators.push_back(operator_of(sizes, "head", sizes.layers - 1, parts.head));
  if (sizes.tied) {
    const auto last = static_cast<std::int32_t>(model.operators.size()) - 1;
    model.tied_parameters.push_back({{0, last}, counting.shared().value()});
  }
  model.optimizer_bytes_per_parameter_byte = mean_optimizer(sizes, model);
  return model;
}

}  // namespace trimtab
