#include "schema/megatron_model.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/numbers.hpp"
#include "documents/json_document.hpp"

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

// --name with its values; a flag has none.
using Options = std::map<std::string, std::vector<std::string>, std::less<>>;

constexpr std::string_view kRead[] = {"num-layers",
                                      "hidden-size",
                                      "num-attention-heads",
                                      "seq-length",
                                      "global-batch-size",
                                      "vocab-size",
                                      "max-position-embeddings",
                                      "ffn-hidden-size",
                                      "kv-channels",
                                      "num-query-groups",
                                      "make-vocab-size-divisible-by",
                                      "tensor-model-parallel-size",
                                      "encoder-seq-length",
                                      "position-embedding-type",
                                      "normalization",
                                      "swiglu",
                                      "disable-bias-linear",
                                      "add-qkv-bias",
                                      "qk-layernorm",
                                      "group-query-attention",
                                      "untie-embeddings-and-output-weights",
                                      "use-rotary-position-embeddings",
                                      "no-position-embedding",
                                      "fp16",
                                      "bf16",
                                      "accumulate-allreduce-grads-in-fp32",
                                      "quick-geglu",
                                      "hidden-dropout",
                                      "attention-dropout",
                                      "attention-backend",
                                      "transformer-impl",
                                      "use-flash-attn",
                                      "grad-reduce-in-bf16",
                                      "optimizer",
                                      "sgd-momentum",
                                      "use-precision-aware-optimizer",
                                      "main-grads-dtype",
                                      "main-params-dtype",
                                      "exp-avg-dtype",
                                      "exp-avg-sq-dtype"};
// What makes the model another than the one that is counted here.
constexpr std::string_view kOthers[] = {"num-experts",
                                        "multi-latent-attention",
                                        "hybrid-layer-pattern",
                                        "hybrid-override-pattern",
                                        "hybrid-attention-ratio",
                                        "mtp-num-layers",
                                        "encoder-num-layers",
                                        "decoder-num-layers",
                                        "heterogeneous-layers-config-path",
                                        "heterogeneous-layers-config-encoded-json",
                                        "yaml-cfg",
                                        "use-checkpoint-args",
                                        "retro-add-retriever",
                                        "is-hybrid-model",
                                        "bert-no-binary-head",
                                        "experimental-attention-variant"};

struct Sorted {
  Options read;
  std::vector<std::string> ignored;
};

Result<Sorted> sort_arguments(const std::vector<std::string>& arguments) {
  Sorted sorted;
  std::vector<std::string>* values = nullptr;
  std::vector<std::string> others;
  for (const std::string& word : arguments) {
    if (!word.starts_with("--")) {
      if (values != nullptr) values->push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (std::ranges::count(kOthers, name) > 0) {
      return bad_input("--" + name + ": describes a model that cannot be counted from arguments alone; write its " +
                       "model.json from the PyTorch module (trimtab model extract --module)");
    }
    const bool known = std::ranges::count(kRead, name) > 0;
    if (!known) sorted.ignored.push_back("--" + name);
    values = known ? &sorted.read[name] : &others;
    values->clear();
    if (equals != std::string::npos) values->push_back(word.substr(equals + 1));
  }
  return sorted;
}

Result<std::int64_t> number(const Options& options, std::string_view name, std::optional<std::int64_t> fallback) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  const auto found = options.find(name);
  const std::string option = "--" + std::string(name);
  if (found == options.end()) {
    if (fallback) return *fallback;
    return bad_input(option + ": expected a positive integer, found nothing: the model cannot be counted without it");
  }
  const std::string text = found->second.size() == 1 ? found->second.front() : "";
  const auto value = parse_number<std::int64_t>(text);
  if (value && *value > 0 && *value < kMost) return *value;
  return bad_input(option + ": expected one positive integer, found " + quoted_text(text));
}

Result<std::string> word(const Options& options, std::string_view name, std::string_view fallback,
                         const std::vector<std::string_view>& choices) {
  const auto found = options.find(name);
  if (found == options.end()) return std::string(fallback);
  const std::string text = found->second.empty() ? "" : found->second.front();
  if (std::ranges::count(choices, text) > 0) return text;
  std::string list;
  for (const std::string_view choice : choices) list += (list.empty() ? "" : ", ") + std::string(choice);
  return bad_input("--" + std::string(name) + ": expected one of " + list + ", found " + quoted_text(text));
}

// Below 1, as dropout and momentum are.
Result<double> share(const Options& options, std::string_view name, double fallback) {
  const auto found = options.find(name);
  if (found == options.end()) return fallback;
  const std::string text = found->second.size() == 1 ? found->second.front() : "";
  const auto value = parse_number<double>(text);
  if (value && *value >= 0 && *value < 1) return *value;
  return bad_input("--" + std::string(name) + ": expected one number of at least 0 and below 1, found " +
                   quoted_text(text));
}

struct Sizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, sequence = 0, batch = 0, vocabulary = 0;  // padded
  std::int64_t ffn = 0, channels = 0, groups = 0, positions = 0;                            // 0 positions: none learnt
  bool gated = false, bias = true, qkv_bias = false, query_norm = false, tied = true, rms = false, half = false;
  bool hidden_masks = true, score_masks = true;  // of dropout
  bool keeps_scores = false;                     // attention that is not fused
  std::string dtype = "float32";
  double gradient = 1, optimizer = 2;
};

Status read_shape(const Options& options, Sizes& sizes) {
  TRIMTAB_TRY(sizes.layers, number(options, "num-layers", {}));
  TRIMTAB_TRY(sizes.hidden, number(options, "hidden-size", {}));
  TRIMTAB_TRY(sizes.heads, number(options, "num-attention-heads", {}));
  TRIMTAB_TRY(const std::int64_t encoder, number(options, "encoder-seq-length", 0));
  TRIMTAB_TRY(sizes.sequence, number(options, "seq-length", encoder > 0 ? std::optional(encoder) : std::nullopt));
  TRIMTAB_TRY(sizes.batch, number(options, "global-batch-size", {}));
  if (sizes.layers > 100'000) return bad_input("--num-layers: expected at most 100000, found more");
  sizes.gated = options.contains("swiglu") || options.contains("quick-geglu");
  // A gated unit has two products where another has one: 64 is Megatron-LM's own rounding (swiglu alone).
  const bool two_thirds = options.contains("swiglu");
  const auto shrunk = static_cast<std::int64_t>(static_cast<double>(4 * sizes.hidden * 2) / 3 / 64) * 64;
  TRIMTAB_TRY(sizes.ffn, number(options, "ffn-hidden-size", two_thirds ? shrunk : 4 * sizes.hidden));
  if (sizes.ffn < 1) {
    return bad_input("--ffn-hidden-size: needed with --swiglu and --hidden-size " + std::to_string(sizes.hidden) +
                     ", of which Megatron-LM's own rounding leaves nothing");
  }
  if (!options.contains("kv-channels") && sizes.hidden % sizes.heads != 0) {
    return bad_input("--num-attention-heads: must divide --hidden-size " + std::to_string(sizes.hidden) + ", found " +
                     std::to_string(sizes.heads) + "; or give --kv-channels");
  }
  TRIMTAB_TRY(sizes.channels, number(options, "kv-channels", std::max<std::int64_t>(sizes.hidden / sizes.heads, 1)));
  sizes.groups = sizes.heads;
  if (!options.contains("group-query-attention")) return {};
  TRIMTAB_TRY(sizes.groups, number(options, "num-query-groups", 1));
  if (sizes.heads % sizes.groups == 0) return {};
  return bad_input("--num-query-groups: must divide --num-attention-heads " + std::to_string(sizes.heads) + ", found " +
                   std::to_string(sizes.groups));
}

Status read_ends(const Options& options, Sizes& sizes) {
  TRIMTAB_TRY(const std::int64_t words, number(options, "vocab-size", {}));
  TRIMTAB_TRY(const std::int64_t multiple, number(options, "make-vocab-size-divisible-by", 128));
  TRIMTAB_TRY(const std::int64_t ranks, number(options, "tensor-model-parallel-size", 1));
  const std::int64_t unit = multiple * ranks;
  sizes.vocabulary = (words + unit - 1) / unit * unit;
  sizes.tied = !options.contains("untie-embeddings-and-output-weights");
  TRIMTAB_TRY(const std::string position,
              word(options, "position-embedding-type", "learned_absolute", {"learned_absolute", "rope", "none"}));
  const bool learnt = position == "learned_absolute" && !options.contains("use-rotary-position-embeddings") &&
                      !options.contains("no-position-embedding");
  if (!learnt) return {};
  TRIMTAB_TRY(sizes.positions, number(options, "max-position-embeddings", {}));
  return {};
}

Status read_numerics(const Options& options, Sizes& sizes) {
  TRIMTAB_TRY(const std::string norm, word(options, "normalization", "LayerNorm", {"LayerNorm", "RMSNorm"}));
  sizes.rms = norm == "RMSNorm";
  sizes.bias = !options.contains("disable-bias-linear");
  sizes.qkv_bias = sizes.bias || options.contains("add-qkv-bias");
  sizes.query_norm = options.contains("qk-layernorm");
  const bool bf16 = options.contains("bf16");
  if (bf16 && options.contains("fp16")) return bad_input("--fp16 and --bf16: expected one of them, found both");
  sizes.half = bf16 || options.contains("fp16");
  if (sizes.half) sizes.dtype = bf16 ? "bfloat16" : "float16";
  return {};
}

// Bytes of one element; only the precision-aware optimizer has others than 4.
Result<double> element_bytes(const Options& options, std::string_view name,
                             const std::vector<std::string_view>& choices) {
  TRIMTAB_TRY(const std::string dtype, word(options, name, "fp32", choices));
  if (dtype == "fp32") return 4.0;
  if (!options.contains("use-precision-aware-optimizer")) {
    return bad_input("--" + std::string(name) + " " + dtype + ": needs --use-precision-aware-optimizer");
  }
  return dtype == "fp8" ? 1.0 : 2.0;
}

// What the optimizer keeps of each parameter, and the gradients' buffer, as Megatron-LM's arguments.py settles them:
// bf16 accumulates in float32 unless the reduction or the main gradients are bf16, fp16 in float16 unless it is told
// to.
Status read_states(const Options& options, Sizes& sizes) {
  TRIMTAB_TRY(const std::string optimizer, word(options, "optimizer", "adam", {"adam", "sgd"}));
  TRIMTAB_TRY(const double momentum, share(options, "sgd-momentum", 0.9));
  TRIMTAB_TRY(const double gradient, element_bytes(options, "main-grads-dtype", {"fp32", "bf16"}));
  TRIMTAB_TRY(const double main, element_bytes(options, "main-params-dtype", {"fp32", "fp16"}));
  TRIMTAB_TRY(const double average, element_bytes(options, "exp-avg-dtype", {"fp32", "fp16", "bf16", "fp8"}));
  TRIMTAB_TRY(const double squares, element_bytes(options, "exp-avg-sq-dtype", {"fp32", "fp16", "bf16", "fp8"}));
  const double moments = optimizer == "adam" ? average + squares : (momentum > 0 ? 4 : 0);
  const double width = sizes.half ? 2 : 4;
  sizes.optimizer = ((sizes.half ? main : 0) + moments) / width;
  const bool whole = options.contains("accumulate-allreduce-grads-in-fp32");
  const bool in_half = sizes.dtype == "bfloat16" ? options.contains("grad-reduce-in-bf16") || (gradient < 4 && !whole)
                                                 : sizes.half && !whole;
  sizes.gradient = (in_half ? 2 : 4) / width;
  return {};
}

// Fused attention keeps no scores, so nothing of its own dropout either.
Status read_kept(const Options& options, Sizes& sizes) {
  TRIMTAB_TRY(const double hidden, share(options, "hidden-dropout", 0.1));
  TRIMTAB_TRY(const double attention, share(options, "attention-dropout", 0.1));
  TRIMTAB_TRY(const std::string backend,
              word(options, "attention-backend", "auto", {"auto", "flash", "fused", "unfused", "local"}));
  TRIMTAB_TRY(const std::string layers, word(options, "transformer-impl", "transformer_engine",
                                             {"transformer_engine", "local", "inference_optimized"}));
  sizes.hidden_masks = hidden > 0;
  sizes.score_masks = attention > 0;
  const bool local = layers == "local" && !options.contains("use-flash-attn");
  sizes.keeps_scores = backend == "unfused" || backend == "local" || (backend == "auto" && local);
  return {};
}

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
  explicit Counting(const Sizes& sizes) : s_(sizes), width_(sizes.half ? 2 : 4) {}

  [[nodiscard]] Figures embedding() const {
    return {width_ * (vocabulary_ + s_.positions) * hidden_, rows() + mask(), rows() + mask(), rows(), 0, 0};
  }

  [[nodiscard]] Figures attention() const {
    const Amount queries = Amount(s_.heads) * s_.channels;
    const Amount key_values = Amount(2) * s_.groups * s_.channels;
    const Amount mixed = queries + key_values;
    Figures figures;
    figures.parameter_bytes =
        width_ * (norm(hidden_) + hidden_ * mixed + (s_.qkv_bias ? mixed : Amount(0)) + queries * hidden_ +
                  (s_.bias ? hidden_ : Amount(0)) + (s_.query_norm ? 2 * norm(s_.channels) : Amount(0)));
    // Inputs of both products and of the core, the mask behind, and the output. The norm's input is the output before.
    figures.activation_bytes = width_ * sequence_ * (mixed + queries) + scores() + 2 * rows() + mask();
    figures.replicated_bytes = 2 * rows() + mask();
    figures.output_bytes = rows();
    figures.forward_flops = 2 * sequence_ * hidden_ * (mixed + queries) + 4 * sequence_ * sequence_ * queries;
    figures.key_value_bytes = width_ * sequence_ * key_values;
    return figures;
  }

  [[nodiscard]] Figures mlp() const {
    const Amount narrow = s_.ffn;
    const Amount wide = s_.gated ? 2 * narrow : narrow;
    return {width_ * (norm(hidden_) + hidden_ * wide + narrow * hidden_ + (s_.bias ? wide + hidden_ : Amount(0))),
            width_ * sequence_ * (wide + narrow) + 2 * rows() + mask(),
            2 * rows() + mask(),
            rows(),
            2 * sequence_ * hidden_ * (wide + narrow),
            0};
  }

  [[nodiscard]] Figures head() const {
    // The loss keeps the logits in float32.
    return {width_ * (norm(hidden_) + vocabulary_ * hidden_),
            rows() + 4 * sequence_ * vocabulary_,
            rows(),
            4,
            2 * sequence_ * hidden_ * vocabulary_,
            0};
  }

  [[nodiscard]] Amount shared() const { return width_ * vocabulary_ * hidden_; }

 private:
  [[nodiscard]] Amount norm(Amount elements) const { return s_.rms ? elements : 2 * elements; }
  [[nodiscard]] Amount rows() const { return width_ * sequence_ * hidden_; }
  // A byte for each element.
  [[nodiscard]] Amount mask() const { return s_.hidden_masks ? sequence_ * hidden_ : Amount(0); }
  // What the softmax and dropout put out, and dropout's mask.
  [[nodiscard]] Amount scores() const {
    if (!s_.keeps_scores) return 0;
    return (s_.score_masks ? 2 * width_ + 1 : width_) * s_.heads * sequence_ * sequence_;
  }

  const Sizes& s_;
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
  Figures embedding, attention, mlp, head;
};

Result<OperatorFigures> count(const Counting& counting, const Sizes& s) {
  const Named hidden{"hidden-size", s.hidden};
  const Named sequence{"seq-length", s.sequence};
  const Named vocabulary{"vocab-size (padded)", s.vocabulary};
  const Named heads{"num-attention-heads", s.heads};
  const Named ffn{"ffn-hidden-size", s.ffn};
  const OperatorFigures parts{counting.embedding(), counting.attention(), counting.mlp(), counting.head()};
  TRIMTAB_TRY_STATUS(
      check(parts.embedding, "an embedding", {hidden, sequence, vocabulary, {"max-position-embeddings", s.positions}}));
  TRIMTAB_TRY_STATUS(check(parts.attention, "an attention",
                           {hidden, sequence, heads, {"kv-channels", s.channels}, {"num-query-groups", s.groups}}));
  TRIMTAB_TRY_STATUS(check(parts.mlp, "an mlp", {hidden, sequence, ffn}));
  TRIMTAB_TRY_STATUS(check(parts.head, "a head", {hidden, sequence, vocabulary}));
  const Figures whole = parts.embedding + Amount(s.layers) * (parts.attention + parts.mlp) + parts.head;
  TRIMTAB_TRY_STATUS(check(whole, "a model", {{"num-layers", s.layers}, hidden, sequence, heads, ffn, vocabulary}));
  return parts;
}

std::string cost_key(const Sizes& s, const std::string& kind) {
  const std::string key = kind + "-h" + std::to_string(s.hidden) + "-t" + std::to_string(s.sequence);
  if (kind == "attention") {
    return key + "-a" + std::to_string(s.heads) + "-g" + std::to_string(s.groups) + "-c" + std::to_string(s.channels);
  }
  if (kind == "mlp") return key + "-f" + std::to_string(s.ffn) + (s.gated ? "-gated" : "");
  return key + "-v" + std::to_string(s.vocabulary);
}

// REQUIRES: the figures fit.
Operator operator_of(const Sizes& sizes, const std::string& kind, std::int64_t layer, const Figures& figures) {
  const bool of_layer = kind == "attention" || kind == "mlp";
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

Result<Model> counted(const Sizes& sizes, const std::string& name) {
  const Counting counting(sizes);
  TRIMTAB_TRY(const OperatorFigures parts, count(counting, sizes));
  Model model;
  model.name = name;
  model.global_batch = static_cast<std::int32_t>(sizes.batch);
  model.dtype = sizes.dtype;
  model.gradient_bytes_per_parameter_byte = sizes.gradient;
  model.optimizer_bytes_per_parameter_byte = sizes.optimizer;
  model.frees_sent_outputs = true;
  model.operators.push_back(operator_of(sizes, "embedding", 0, parts.embedding));
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    model.operators.push_back(operator_of(sizes, "attention", layer, parts.attention));
    model.operators.push_back(operator_of(sizes, "mlp", layer, parts.mlp));
    model.operators.back().cut_before = false;  // stages begin with whole layers
  }
  model.operators.push_back(operator_of(sizes, "head", sizes.layers - 1, parts.head));
  if (sizes.tied) {
    const auto last = static_cast<std::int32_t>(model.operators.size()) - 1;
    model.tied_parameters.push_back({{0, last}, counting.shared().value()});
  }
  return model;
}

}  // namespace

Result<MegatronModel> model_from_megatron(const std::vector<std::string>& arguments, const std::string& name) {
  TRIMTAB_TRY(Sorted sorted, sort_arguments(arguments));
  Sizes sizes;
  TRIMTAB_TRY_STATUS(read_shape(sorted.read, sizes));
  TRIMTAB_TRY_STATUS(read_ends(sorted.read, sizes));
  TRIMTAB_TRY_STATUS(read_numerics(sorted.read, sizes));
  TRIMTAB_TRY_STATUS(read_states(sorted.read, sizes));
  TRIMTAB_TRY_STATUS(read_kept(sorted.read, sizes));
  TRIMTAB_TRY(Model model, counted(sizes, name));
  return MegatronModel{std::move(model), std::move(sorted.ignored)};
}

}  // namespace trimtab
