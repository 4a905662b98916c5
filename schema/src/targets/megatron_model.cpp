#include "schema/megatron_model.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

namespace trimtab {

namespace {

// --name with its values; a flag has none.
using Options = std::map<std::string, std::vector<std::string>, std::less<>>;

constexpr std::array<std::string_view, 7> kNumbers{
    "num-layers",        "hidden-size", "num-attention-heads",    "seq-length",
    "global-batch-size", "vocab-size",  "max-position-embeddings"};
constexpr std::array<std::string_view, 6> kFurtherNumbers{"ffn-hidden-size",
                                                          "kv-channels",
                                                          "num-query-groups",
                                                          "make-vocab-size-divisible-by",
                                                          "tensor-model-parallel-size",
                                                          "encoder-seq-length"};
constexpr std::array<std::string_view, 14> kWords{"position-embedding-type",
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
                                                  "quick-geglu"};
// What makes the model another than the one that is counted here.
constexpr std::array<std::string_view, 16> kOthers{"num-experts",
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

template <std::size_t N>
bool listed(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

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
    if (listed(kOthers, name)) {
      return bad_input("--" + name + ": describes a model that cannot be counted from arguments alone; write its " +
                       "model.json from the PyTorch module (trimtab model extract --module)");
    }
    const bool known = listed(kNumbers, name) || listed(kFurtherNumbers, name) || listed(kWords, name);
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
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (read.ec == std::errc() && read.ptr == text.data() + text.size() && value > 0 && value < kMost) return value;
  return bad_input(option + ": expected one positive integer, found '" + text + "'");
}

Result<std::string> word(const Options& options, std::string_view name, std::string_view fallback,
                         const std::vector<std::string_view>& choices) {
  const auto found = options.find(name);
  if (found == options.end()) return std::string(fallback);
  const std::string text = found->second.empty() ? "" : found->second.front();
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  std::string list;
  for (const std::string_view choice : choices) list += (list.empty() ? "" : ", ") + std::string(choice);
  return bad_input("--" + std::string(name) + ": expected one of " + list + ", found '" + text + "'");
}

struct Sizes {
  std::int64_t layers = 0, hidden = 0, heads = 0, sequence = 0, batch = 0, vocabulary = 0;  // padded
  std::int64_t ffn = 0, channels = 0, groups = 0, positions = 0;                            // 0 positions: none learnt
  bool gated = false, bias = true, qkv_bias = false, query_norm = false, tied = true, rms = false, half = false;
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
  if (!sizes.half) return {};
  sizes.dtype = bf16 ? "bfloat16" : "float16";
  // Main parameters and two moments in float32 for each parameter of two bytes; gradients in float32 with bf16.
  sizes.gradient = bf16 || options.contains("accumulate-allreduce-grads-in-fp32") ? 2 : 1;
  sizes.optimizer = 6;
  return {};
}

class Counting {
 public:
  explicit Counting(const Sizes& sizes) : s_(sizes), width_(sizes.half ? 2 : 4) {}

  [[nodiscard]] Operator embedding() const {
    Operator op = named("embedding", "embedding", 0);
    op.parameter_bytes = width_ * (s_.vocabulary + s_.positions) * s_.hidden;
    op.activation_bytes = rows() + dropout();
    op.output_bytes = rows();
    op.tensor_all_reduces = 0;
    return op;
  }

  [[nodiscard]] Operator attention(std::int64_t layer) const {
    Operator op = named("layer" + std::to_string(layer) + "-attention", "attention", layer);
    const std::int64_t queries = s_.heads * s_.channels;
    const std::int64_t mixed = queries + 2 * s_.groups * s_.channels;
    op.parameter_bytes =
        width_ * (norm(s_.hidden) + s_.hidden * mixed + (s_.qkv_bias ? mixed : 0) + queries * s_.hidden +
                  (s_.bias ? s_.hidden : 0) + (s_.query_norm ? 2 * norm(s_.channels) : 0));
    // Inputs of the norm, of both products and of the core, the mask behind, and the output.
    op.activation_bytes = width_ * s_.sequence * (2 * s_.hidden + mixed + queries) + dropout() + rows();
    op.output_bytes = rows();
    op.forward_flops = 2 * s_.sequence * s_.hidden * (mixed + queries) + 4 * s_.sequence * s_.sequence * queries;
    op.tensor_all_reduces = 1;
    op.key_value_bytes = width_ * s_.sequence * 2 * s_.groups * s_.channels;
    return op;
  }

  [[nodiscard]] Operator mlp(std::int64_t layer) const {
    Operator op = named("layer" + std::to_string(layer) + "-mlp", "mlp", layer);
    const std::int64_t wide = s_.gated ? 2 * s_.ffn : s_.ffn;
    op.parameter_bytes =
        width_ * (norm(s_.hidden) + s_.hidden * wide + s_.ffn * s_.hidden + (s_.bias ? wide + s_.hidden : 0));
    op.activation_bytes = width_ * s_.sequence * (2 * s_.hidden + wide + s_.ffn) + dropout() + rows();
    op.output_bytes = rows();
    op.forward_flops = 2 * s_.sequence * s_.hidden * (wide + s_.ffn);
    op.tensor_all_reduces = 1;
    return op;
  }

  [[nodiscard]] Operator head() const {
    Operator op = named("head", "head", s_.layers - 1);
    op.parameter_bytes = width_ * (norm(s_.hidden) + s_.vocabulary * s_.hidden);
    // The loss keeps the logits in float32.
    op.activation_bytes = 2 * rows() + 4 * s_.sequence * s_.vocabulary;
    op.output_bytes = 4;
    op.forward_flops = 2 * s_.sequence * s_.hidden * s_.vocabulary;
    op.tensor_all_reduces = 0;
    return op;
  }

  [[nodiscard]] Bytes shared() const { return width_ * s_.vocabulary * s_.hidden; }

 private:
  [[nodiscard]] Operator named(std::string name, const std::string& kind, std::int64_t layer) const {
    Operator op;
    op.name = std::move(name);
    op.kind = kind;
    op.layer = static_cast<std::int32_t>(layer);
    op.cost_key = kind + "-h" + std::to_string(s_.hidden) + "-t" + std::to_string(s_.sequence);
    if (kind == "attention") {
      op.cost_key +=
          "-a" + std::to_string(s_.heads) + "-g" + std::to_string(s_.groups) + "-c" + std::to_string(s_.channels);
    } else if (kind == "mlp") {
      op.cost_key += "-f" + std::to_string(s_.ffn) + (s_.gated ? "-gated" : "");
    } else {
      op.cost_key += "-v" + std::to_string(s_.vocabulary);
    }
    op.shape = {{"sequence", s_.sequence}, {"hidden", s_.hidden}};
    return op;
  }
  [[nodiscard]] std::int64_t norm(std::int64_t elements) const { return s_.rms ? elements : 2 * elements; }
  [[nodiscard]] Bytes rows() const { return width_ * s_.sequence * s_.hidden; }
  [[nodiscard]] Bytes dropout() const { return s_.sequence * s_.hidden; }  // a byte for each element of the mask

  const Sizes& s_;
  std::int64_t width_;
};

Model counted(const Sizes& sizes, const std::string& name) {
  const Counting count(sizes);
  Model model;
  model.name = name;
  model.global_batch = static_cast<std::int32_t>(sizes.batch);
  model.dtype = sizes.dtype;
  model.gradient_bytes_per_parameter_byte = sizes.gradient;
  model.optimizer_bytes_per_parameter_byte = sizes.optimizer;
  model.operators.push_back(count.embedding());
  for (std::int64_t layer = 0; layer < sizes.layers; ++layer) {
    model.operators.push_back(count.attention(layer));
    model.operators.push_back(count.mlp(layer));
    model.operators.back().cut_before = false;  // stages begin with whole layers
  }
  model.operators.push_back(count.head());
  if (sizes.tied) {
    const auto last = static_cast<std::int32_t>(model.operators.size()) - 1;
    model.tied_parameters.push_back({{0, last}, count.shared()});
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
  return MegatronModel{counted(sizes, name), std::move(sorted.ignored)};
}

}  // namespace trimtab
