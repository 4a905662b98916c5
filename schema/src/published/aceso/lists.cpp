#include "documents/json_reader.hpp"
#include "published/aceso/rows.hpp"
#include "published/text_file.hpp"

namespace trimtab::published {

namespace {

constexpr IntegerLimits kRepeats{1, 200000, "a number of repeats between 1 and 200000"};
constexpr std::int64_t kMaxOperators = 200000;  // more would not fit into a model document

// "gpt/1_3B".
void read_name(const std::string& name, const JsonReader& in, OperatorList& list) {
  const std::size_t slash = name.find('/');
  list.model = name.substr(0, slash);
  list.size = slash == std::string::npos ? "" : name.substr(slash + 1);
  if (!fit_for_a_file_name(list.model) || !fit_for_a_file_name(list.size))
    in.refuse("expected a member called MODEL/SIZE");
}

OperatorList read_list(const std::string& name, const JsonReader& in) {
  OperatorList list;
  read_name(name, in, list);
  list.profile_model = in.at("profile_model").text();
  list.profile_size = in.at("profile_size").text();
  std::int64_t count = 0;
  in.at("blocks").each_required([&](const JsonReader& block) {
    OperatorBlock read{block.at("repeat").integer32(kRepeats), block.at("ops").texts()};
    if (read.operators.empty()) block.at("ops").fail("an array of at least one name");
    count += std::int64_t{read.repeat} * static_cast<std::int64_t>(read.operators.size());
    if (count > kMaxOperators) block.fail("at most 200000 operators in all blocks");
    list.blocks.push_back(std::move(read));
  });
  const JsonReader total = in.at("num_ops");
  if (const std::int64_t said = total.integer(kNonNegative); !in.failed() && said != count) {
    total.fail("the number of operators of all blocks, which is " + std::to_string(count));
  }
  return list;
}

}  // namespace

Result<std::vector<OperatorList>> read_operator_lists(const std::string& directory) {
  TRIMTAB_TRY(const TextFile file, read_text_file(directory, "op_lists.json"));
  TRIMTAB_TRY(JsonDocument document, JsonDocument::parse(file.text, file.path, ""));
  std::vector<OperatorList> lists;
  document.root().each_member(
      [&](const std::string& name, const JsonReader& in) { lists.push_back(read_list(name, in)); });
  TRIMTAB_TRY_STATUS(document.status());
  if (lists.empty()) return bad_input(file.path + ": expected at least one list of operators");
  return lists;
}

}  // namespace trimtab::published
