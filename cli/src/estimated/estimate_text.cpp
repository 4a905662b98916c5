#include "estimated/estimate_text.hpp"

#include <algorithm>
#include <cmath>

#include "base/numbers.hpp"
#include "terminal_text.hpp"

namespace trimtab::cli {

namespace {

using estimates::Estimate;
using estimates::Machine;

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr std::size_t kWidth = 100;

std::string billions(double count) {
  return format_number(count / 1e9, count < 1e10 ? 2 : 1);
}

// Differences below a thousandth of the step are left out.
std::string listed(std::vector<NamedSeconds> differences, const char* word, double step) {
  std::erase_if(differences, [&](const NamedSeconds& one) { return one.second < step / 1000; });
  std::ranges::stable_sort(differences, std::ranges::greater{}, &NamedSeconds::second);
  if (differences.size() > 3) differences.resize(3);
  return joined(differences, ", ",
                [&](const NamedSeconds& one) { return seconds(one.second) + " " + word + " " + one.first; });
}

std::string shell_word(const std::string& word) {
  const bool plain =
      !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,") ==
                           std::string::npos;
  return plain ? word : "'" + word + "'";
}

// Lines that a shell joins, an option and its values together.
std::string pasted(const std::vector<std::string>& words) {
  std::string text = " ";
  std::size_t width = 1;
  for (std::size_t i = 0; i < words.size();) {
    std::string option = shell_word(words[i++]);
    while (i < words.size() && !words[i].starts_with("--")) option += " " + shell_word(words[i++]);
    if (width > 1 && width + option.size() > kWidth) {
      text += " \\\n ";
      width = 1;
    }
    text += " " + option;
    width += option.size() + 1;
  }
  return text + "\n";
}

// Words, a figure with its unit as one.
std::vector<std::string> with_units(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string_view word : blank_parted(text)) {
    const std::string_view bare = word.substr(0, word.find_first_of(",.:;)"));
    const bool unit = bare == "s" || bare == "ms" || bare == "%" || bare == "GiB";
    if (unit && !words.empty()) {
      words.back() += " " + std::string(word);
    } else {
      words.emplace_back(word);
    }
  }
  return words;
}

}  // namespace

std::string seconds(double value) {
  if (value < 0.9995) return format_number(value * 1000, value < 0.01 ? 2 : value < 0.1 ? 1 : 0) + " ms";
  return format_fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0) + " s";
}

std::string gib(double bytes) {
  return format_fixed(bytes / kGib, 1);
}

std::vector<NamedSeconds> named_parts(const estimates::StepParts& parts) {
  return {{"computing", parts.computation},
          {"recomputing", parts.recomputation},
          {"launches by the host", parts.launches},
          {"tensor-parallel communication", parts.tensor},
          {"context-parallel communication", parts.context},
          {"transfers between stages", parts.transfers},
          {"reduction of gradients", parts.gradients},
          {"gathering of parameters", parts.parameters},
          {"bubble, waiting for others", parts.bubble},
          {"optimizer", parts.optimizer}};
}

std::string wrapped(const std::string& text, std::size_t indent) {
  const std::string margin(indent, ' ');
  std::string out = margin;
  std::size_t width = indent;
  for (const std::string& word : with_units(text)) {
    if (width > indent && width + 1 + word.size() > kWidth + 10) {
      out += "\n" + margin + (indent > 0 ? "  " : "");
      width = margin.size();
    } else if (width > indent) {
      out += " ";
      ++width;
    }
    out += word;
    width += word.size();
  }
  return out + "\n";
}

std::string asked_text(const Asked& asked, const Machine& machine) {
  const double tokens = static_cast<double>(asked.global_batch) * asked.shape.sequence;
  std::string text = printable(asked.shape.name) + ": " +
                     billions(static_cast<double>(estimates::parameters(asked.shape))) + " billion parameters, " +
                     std::to_string(asked.shape.layers) + " layers; " + std::to_string(asked.global_batch) +
                     " samples of " + std::to_string(asked.shape.sequence) + " tokens a step (" +
                     format_number(tokens / 1e6, 2) + " million), " + std::string(word_of(asked.precision)) + "\n";
  text += std::to_string(machine.devices) + " x " + std::string(machine.gpu.name) + ", " +
          gib(static_cast<double>(machine.gpu.memory)) + " GiB each";
  if (machine.nodes() > 1) {
    text += ", " + std::to_string(machine.devices_per_node) + " a node, " +
            format_number(machine.network.bandwidth * 8 / 1e9, 0) + " Gbit/s between nodes for each";
  }
  text += "; run by " + std::string(estimates::name_of(asked.target)) + "\n";
  if (!asked.assumed.empty()) text += wrapped("Not said, so assumed: " + joined(asked.assumed, "; ") + ".");
  return text;
}

std::string source_text(const Asked& asked) {
  if (!asked.correction) return "Estimates from data sheets, nothing was measured.";
  return "Estimates from data sheets, times " + format_number(asked.correction->factor, 3) +
         ", which your measured steps say.";
}

std::string peak_text(const Asked& asked, const Machine& machine) {
  return "MFU is of " + format_number(estimates::peak_flops(machine.gpu, asked.precision) / 1e12, 1) +
         " TFLOP/s a GPU (" + std::string(word_of(asked.precision)) +
         ", dense); recomputation does not count, attention counts without a mask.\n";
}

std::string comparison(const Estimate& one, const Estimate& other) {
  std::vector<NamedSeconds> less;
  std::vector<NamedSeconds> more;
  const auto ours = named_parts(one.parts);
  const auto theirs = named_parts(other.parts);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    less.emplace_back(ours[i].first, theirs[i].second - ours[i].second);
    more.emplace_back(ours[i].first, ours[i].second - theirs[i].second);
  }
  const double gain = other.step_s - one.step_s;
  const std::string saved = listed(less, "less", one.step_s);
  const std::string paid = listed(more, "more", one.step_s);
  std::string text = seconds(std::abs(gain)) + (gain >= 0 ? " faster" : " slower") + " (" +
                     format_percent(std::abs(gain) / other.step_s) + ")";
  if (!saved.empty()) text += ": " + saved;
  if (!paid.empty()) text += (saved.empty() ? ": " : ", but ") + paid;
  return text;
}

std::string parts_table(const std::vector<std::pair<std::string, const Estimate*>>& plans) {
  std::vector<Column> columns{{"of a step"}};
  for (const auto& [name, estimate] : plans) columns.emplace_back((">" + name).c_str());
  TextTable table(std::move(columns));
  const std::size_t parts = named_parts({}).size();
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<std::string> row{named_parts({})[part].first};
    bool any = false;
    for (const auto& [name, estimate] : plans) {
      const double value = named_parts(estimate->parts)[part].second;
      any = any || value > estimate->step_s / 1000;
      row.push_back(value > 0 ? seconds(value) : "-");
    }
    if (any) table.add(std::move(row));
  }
  std::vector<std::string> sum{"together"};
  for (const auto& [name, estimate] : plans) sum.push_back(seconds(estimate->step_s));
  table.add(std::move(sum));
  return table.str(2);
}

std::string told_text(const Asked& asked, const estimates::UniformPlan& plan) {
  const std::string target(estimates::name_of(asked.target));
  const auto told = estimates::tell(plan, asked.model, asked.target);
  if (!told.ok()) return "Nothing to paste for " + target + ": " + told.error().message + "\n";
  std::string text = "To paste, for " + target;
  if (told->told.file_text.empty()) {
    text += ":\n" + pasted(told->told.arguments);
  } else {
    text += " (" + told->told.file_name + "):\n" + told->told.file_text;
  }
  for (const auto& [name, value] : told->told.environment) text += "  in the environment: " + name + "=" + value + "\n";
  for (const std::string& remark : told->remarks) text += "  " + remark + "\n";
  return text;
}

}  // namespace trimtab::cli
