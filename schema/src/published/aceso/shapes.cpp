#include "published/aceso/shapes.hpp"

#include <array>
#include <initializer_list>
#include <tuple>

namespace trimtab::published {

namespace {

struct KindOfName {
  std::string_view part;  // of the published name
  std::string_view kind;
  bool splits_two_ways;
};

// The first that occurs in the name decides.
constexpr std::array<KindOfName, 18> kKinds{{{"embedding", "embedding", false},
                                             {"layernorm", "layernorm", false},
                                             {"post-process", "head", false},
                                             {"attention-score", "attention", false},
                                             {"attention-context", "attention", false},
                                             {"softmax", "softmax", false},
                                             {"dropout", "dropout", false},
                                             {"attention-qkv", "linear", true},
                                             {"attention-dense", "linear", true},
                                             {"MLP-GEMM", "linear", true},
                                             {"gelu", "gelu", false},
                                             {"downsample", "convolution", true},
                                             {"conv", "convolution", true},
                                             {"bn", "batchnorm", false},
                                             {"relu", "relu", false},
                                             {"maxpool", "pooling", false},
                                             {"avgpool", "pooling", false},
                                             {"fc", "linear", false}}};

bool has(std::string_view name, std::string_view part) {
  return name.find(part) != std::string_view::npos;
}

// Of a transformer: the rows that an operator works on, and those that its attention looks at.
struct Rows {
  std::int64_t own;
  std::int64_t attended;
};

// A decoder's second attention ("-2") looks at the encoder's output.
Rows rows_of(std::string_view op, const Setting& setting) {
  const bool decoder = op.starts_with("dec") || op.starts_with("t5-post");
  if (!decoder) return {setting.sequence, setting.sequence};
  const bool crosses = op.ends_with("-2");
  return {setting.decoder_sequence, crosses ? setting.sequence : setting.decoder_sequence};
}

// A multiplication and an addition for each element of the product; 0 where no integer can hold it.
std::int64_t flops(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 2;
  for (const std::int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) return 0;
  }
  return product;
}

std::int64_t flops_of(std::string_view op, const Setting& setting) {
  const auto [own, attended] = rows_of(op, setting);
  const auto& [hidden, heads, channels] = std::tie(setting.hidden, setting.heads, setting.head_channels);
  if (has(op, "attention-qkv")) return flops({hidden, heads, channels, own + 2 * attended});
  if (has(op, "attention-score") || has(op, "attention-context")) return flops({own, attended, heads, channels});
  if (has(op, "attention-dense")) return flops({own, heads, channels, hidden});
  if (has(op, "MLP-GEMM")) return flops({own, hidden, setting.ffn_hidden});
  if (has(op, "post-process")) return flops({own, hidden, setting.vocabulary});
  return 0;
}

std::map<std::string, std::int64_t> sizes_of(std::string_view op, const Setting& setting) {
  const auto [own, attended] = rows_of(op, setting);
  std::map<std::string, std::int64_t> sizes{{"sequence", own}, {"hidden", setting.hidden}};
  if (has(op, "attention")) sizes.insert({{"heads", setting.heads}, {"head_channels", setting.head_channels}});
  if (attended != own) sizes["attended"] = attended;
  if (has(op, "MLP")) sizes["ffn_hidden"] = setting.ffn_hidden;
  if (has(op, "embedding") || has(op, "post-process")) sizes["vocabulary"] = setting.vocabulary;
  return sizes;
}

}  // namespace

bool reads_input(std::string_view op) {
  return !has(op, "softmax") && !has(op, "dropout") && !has(op, "relu") && !has(op, "downsample");
}

bool reads_output(std::string_view op) {
  return has(op, "softmax") || has(op, "relu");
}

OperatorShape shape_of(std::string_view op, const Setting& setting) {
  OperatorShape shape;
  for (const KindOfName& entry : kKinds) {
    if (!has(op, entry.part)) continue;
    shape.kind = entry.kind;
    shape.splits_two_ways = entry.splits_two_ways;
    break;
  }
  if (setting.hidden == 0) return shape;
  shape.sizes = sizes_of(op, setting);
  shape.forward_flops = flops_of(op, setting);
  return shape;
}

}  // namespace trimtab::published
