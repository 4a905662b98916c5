#include "schema/launch_script.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text_parts.hpp"
#include "targets/launch_reasons.hpp"
#include "targets/shell_branches.hpp"
#include "targets/shell_variables.hpp"
#include "targets/yaml_options.hpp"

namespace trimtab {

namespace {

constexpr std::size_t kMostBytes = 1 << 26;    // of a file, variables put in
constexpr int kDeepest = 16;                   // defaults in defaults
constexpr std::size_t kMostTakenIn = 1 << 20;  // of a file that it takes in
constexpr int kDeepestTakenIn = 4;             // files in files

bool is_blank(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r';
}

struct LookAlike {
  std::string_view bytes;
  std::string_view name;
  bool as_dash = false;  // it matters where a word begins
};
constexpr std::array<LookAlike, 9> kLookAlikes{{{"\xef\xbb\xbf", "U+FEFF (a byte order mark)"},
                                                {"\xc2\xa0", "U+00A0 (a no-break space)"},
                                                {"\xe2\x80\x8b", "U+200B (a blank of no width)"},
                                                {"\xe2\x80\x90", "U+2010 (a hyphen)", true},
                                                {"\xe2\x80\x91", "U+2011 (a no-break hyphen)", true},
                                                {"\xe2\x80\x92", "U+2012 (a figure dash)", true},
                                                {"\xe2\x80\x93", "U+2013 (an en dash)", true},
                                                {"\xe2\x80\x94", "U+2014 (an em dash)", true},
                                                {"\xe2\x88\x92", "U+2212 (a minus sign)", true}}};

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

std::vector<std::string> all_blank_parted(const std::vector<std::string>& texts) {
  std::vector<std::string> words;
  for (const std::string& text : texts) {
    for (const std::string_view word : blank_parted(text)) words.emplace_back(word);
  }
  return words;
}

// NAME= or NAME+= in front: the length up to the value; 0 = there is none.
std::size_t assignment_length(const std::string& word) {
  const std::size_t name = name_length(word);
  if (name == 0 || name == word.size()) return 0;
  if (word[name] == '=') return name + 1;
  return word.compare(name, 2, "+=") == 0 ? name + 2 : 0;
}

// Files that a script takes in, of which it may name the same again and again.
struct Sources {
  const SourcedText& text;
  int left = 64;
};

class ScriptReader {
 public:
  // `listed`: the text is one list of words, without commands; ends of lines are blanks.
  ScriptReader(std::string_view text, std::string source, bool listed, ShellVariables variables = {}, int depth = 0)
      : text_(text), source_(std::move(source)), listed_(listed), variables_(std::move(variables)), depth_(depth) {}

  // Of a script that takes others in. Null: it takes none in.
  void take_from(Sources* sources) { sources_ = sources; }

  Result<LaunchScript> read() {
    while (at_ < text_.size()) {
      TRIMTAB_TRY_STATUS(step());
      if (bytes_ > kMostBytes) return fail("longer than any command, once its variables are put in");
    }
    if (quote_ != 0) {
      return bad_input(source_ + ":" + std::to_string(quote_line_) + ": the quote " + quote_ +
                       " that begins here has no end");
    }
    end_word();
    if (in_array_) end_array();
    end_command();
    return std::move(script_);
  }

 private:
  struct Document {
    std::string end;
    bool plain = false;  // nothing is put in
    bool indented = false;
  };

  [[nodiscard]] Error fail(const std::string& what) const {
    return bad_input(source_ + ":" + std::to_string(line_) + ": " + what);
  }
  [[nodiscard]] bool follows(std::string_view text) const { return text_.substr(at_).starts_with(text); }
  [[nodiscard]] bool lists_words() const { return listed_ || in_array_; }

  Status step() {
    const char letter = text_[at_];
    if (letter == '\n') ++line_;
    if (letter == '\\' && quote_ != '\'') return escape();
    if (letter == '$' && quote_ != '\'') return dollar();
    if (quote_ != 0) {
      if (letter == quote_) {
        quote_ = 0;
      } else {
        put(letter);
      }
      ++at_;
      return {};
    }
    TRIMTAB_TRY_STATUS(check_look_alikes());
    if (letter == '"' || letter == '\'') {
      quote_ = letter;
      quote_line_ = line_;
      begin_word();
    } else if (letter == '`') {
      const std::size_t end = std::min(text_.find('`', at_ + 1), text_.size() - 1);
      put(text_.substr(at_, end + 1 - at_));
      at_ = end;
    } else if (letter == '#' && !open_) {
      while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
    } else if (is_blank(letter)) {
      end_word();
      if (letter == '\n' && !lists_words()) end_line();
    } else if (lists_words()) {
      if (in_array_ && letter == ')') {
        end_array();
      } else {
        put(letter);
      }
    } else {
      return operator_or_letter(letter);
    }
    ++at_;
    return {};
  }

  Status check_look_alikes() const {
    for (const LookAlike& one : kLookAlikes) {
      if (!follows(one.bytes) || (one.as_dash && open_)) continue;
      return fail("the letter " + std::string(one.name) + " stands where a " +
                  (one.as_dash ? "'-'" : "blank, or nothing,") + " should; write it anew");
    }
    return {};
  }

  Status escape() {
    if (at_ + 1 == text_.size()) {
      ++at_;
      return {};
    }
    const char next = text_[at_ + 1];
    if (next == '\r' && at_ + 2 < text_.size() && text_[at_ + 2] == '\n') {
      return fail(
          "a carriage return (an end of line as of Windows) stands behind the backslash, so the line is not "
          "continued; " +
          std::string("convert the file (sed -i 's/\\r$//' FILE)"));
    }
    if (next == '\n') {
      ++line_;
    } else {
      const bool kept = quote_ == '"' && std::string_view("$`\"\\").find(next) == std::string_view::npos;
      if (kept) put('\\');
      put(next);
    }
    at_ += 2;
    return {};
  }

  // Outside of quotes, where commands are read.
  Status operator_or_letter(char letter) {
    if (letter == '(' && open_ && in_assignment() && word_.back() == '=') {
      begin_array();
    } else if (letter == ';' || letter == '&' || letter == '|' || letter == '(' || letter == ')') {
      end_command();
    } else if (follows("<<") && !follows("<<<")) {
      return begin_document();
    } else if (letter == '<' || letter == '>') {
      redirect();
      return {};
    } else {
      put(letter);
    }
    ++at_;
    return {};
  }

  // Where it goes is no word of the command.
  void redirect() {
    if (std::ranges::all_of(word_, [](char c) { return c >= '0' && c <= '9'; })) {
      word_.clear();
      open_ = false;
    }
    end_word();
    while (at_ < text_.size() && std::string_view("<>&|").find(text_[at_]) != std::string_view::npos) ++at_;
    passes_over_ = true;
  }

  Status begin_document() {
    end_word();
    at_ += 2;
    Document document;
    if (follows("-")) {
      document.indented = true;
      ++at_;
    }
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    while (at_ < text_.size() && !is_blank(text_[at_]) &&
           std::string_view(";&|<>()").find(text_[at_]) == std::string_view::npos) {
      const char letter = text_[at_++];
      if (letter == '"' || letter == '\'' || letter == '\\') {
        document.plain = true;
      } else {
        document.end += letter;
      }
    }
    if (!document.end.empty()) documents_.push_back(std::move(document));
    return {};
  }

  void end_line() {
    end_command();
    for (const Document& document : std::exchange(documents_, {})) read_document(document);
  }

  // The cursor stands on the end of the line before it, and then on the one of its last line.
  void read_document(const Document& document) {
    const std::int64_t begin = line_;
    std::string inside;
    while (at_ + 1 < text_.size()) {
      const std::size_t end = std::min(text_.find('\n', at_ + 1), text_.size());
      std::string_view one = text_.substr(at_ + 1, end - at_ - 1);
      at_ = std::min(end, text_.size() - 1);
      line_ += end < text_.size() ? 1 : 0;
      if (one.ends_with('\r')) one.remove_suffix(1);
      while (document.indented && one.starts_with('\t')) one.remove_prefix(1);
      if (one == document.end) break;
      inside.append(one).push_back('\n');
      if (end == text_.size()) break;
    }
    if (depth_ >= kDeepest || branches_.passed_over()) return;
    auto read = ScriptReader(inside, source_, true, document.plain ? ShellVariables() : variables_, depth_ + 1).read();
    // What has quotes of its own kind is no list of words.
    if (read.ok() && !read->commands.empty())
      script_.documents.push_back({begin, std::move(read->commands.front().words)});
  }

  Status dollar() {
    const std::string_view rest = text_.substr(at_ + 1);
    if (rest.starts_with('(')) {
      const std::string_view inside = rest.substr(0, balanced(rest, '(', ')'));
      const bool sum = inside.size() > 4 && inside.starts_with("((") && inside.ends_with("))");
      const auto value = sum ? variables_.sum(inside.substr(2, inside.size() - 4)) : std::nullopt;
      if (!value) return literal(inside.size() + 1);
      put(std::to_string(*value));
      at_ += inside.size() + 1;
      return {};
    }
    if (rest.starts_with('{')) {
      const std::size_t length = balanced(rest, '{', '}');
      return expand(length > 2 ? rest.substr(1, length - 2) : "", length + 1);
    }
    if (rest.starts_with('@') || rest.starts_with('*')) {  // the script's own arguments: none
      nothing_ = true;
      at_ += 2;
      return {};
    }
    const std::size_t length = name_length(rest);
    return length > 0 ? expand(rest.substr(0, length), length + 1) : literal(1);
  }

  // Up to the bracket that closes the first one, or all where none does.
  static std::size_t balanced(std::string_view text, char open, char close) {
    int depth = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      depth += text[i] == open ? 1 : text[i] == close ? -1 : 0;
      if (depth == 0) return i + 1;
    }
    return text.size();
  }

  // So many letters as they are written.
  Status literal(std::size_t length) {
    const std::string_view text = text_.substr(at_, length);
    line_ += std::ranges::count(text, '\n');
    put(text);
    at_ += text.size();
    return {};
  }

  Status expand(std::string_view inside, std::size_t length) {
    auto known = variables_.expand(inside);
    if (!known) {
      const auto text = variables_.default_of(inside);
      if (!text || depth_ >= kDeepest) return literal(length);
      auto read = ScriptReader(*text, source_, true, variables_, depth_ + 1).read();
      if (!read.ok()) return literal(length);
      known =
          ShellVariables::Expansion{read->commands.empty() ? std::vector<std::string>{} : read->commands.front().words};
      if (quote_ != 0 || in_assignment()) known->words = {joined(known->words)};
    }
    at_ += length;
    put_words(*known);
    return {};
  }

  static std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return text;
  }

  void put_words(const ShellVariables::Expansion& known) {
    if (quote_ != 0 && known.apart) return put_apart(known.words);
    if (quote_ != 0 || in_assignment()) return put(joined(known.words));
    const std::string text = joined(known.words);
    std::vector<std::string> words = all_blank_parted({text});
    if (!text.empty() && is_blank(text.front())) end_word();
    put_apart(words);
    if (!text.empty() && is_blank(text.back())) end_word();
  }

  // The first goes on with the word that is open, the last stays open.
  void put_apart(const std::vector<std::string>& words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i > 0) end_word();
      put(words[i]);
    }
  }

  void begin_word() {
    if (!open_ && words_.empty()) begin_ = line_;
    open_ = true;
  }
  void put(char letter) {
    begin_word();
    word_.push_back(letter);
  }
  void put(std::string_view text) {
    begin_word();
    word_.append(text);
  }
  void end_word() {
    const bool is_word = open_ && !(nothing_ && word_.empty());
    nothing_ = false;
    if (is_word && !passes_over_) {
      bytes_ += word_.size() + 1;
      words_.push_back(word_);
    }
    passes_over_ = passes_over_ && !open_;
    word_.clear();
    open_ = false;
  }

  static bool declares(const std::string& word) {
    return is_one_of(word, {"export", "declare", "local", "readonly", "typeset"});
  }

  // The word that is open is NAME=..., where one may stand: its value is one text.
  [[nodiscard]] bool in_assignment() const {
    if (lists_words() || !open_ || assignment_length(word_) == 0) return false;
    return std::ranges::all_of(words_, [](const std::string& word) {
      return declares(word) || assignment_length(word) > 0 || word.starts_with('-') ||
             is_one_of(word, {"then", "else", "do", "{"});
    });
  }

  void begin_array() {
    branches_.take_keywords(words_);  // "then NAME=("
    array_ = word_;
    outer_ = std::exchange(words_, {});
    word_.clear();
    open_ = false;
    in_array_ = true;
  }

  void end_array() {
    end_word();
    in_array_ = false;
    set(array_, std::exchange(words_, std::move(outer_)), true);
    outer_.clear();
  }

  void set(const std::string& assignment, std::vector<std::string> words, bool array) {
    if (branches_.passed_over()) return;
    const std::size_t length = assignment_length(assignment);
    const bool append = assignment[length - 2] == '+';
    const std::string name = assignment.substr(0, name_length(assignment));
    script_.values.push_back({begin_, all_blank_parted(words)});
    variables_.set(name, std::move(words), array, append, branches_.doubtful());
  }

  // "NAME=VALUE", also "NAME+=VALUE", or "NAME" of a variable that was set before. One that is set in several ways is
  // "NAME=$NAME".
  void export_variable(const std::string& word) {
    const std::string name = word.substr(0, name_length(word));
    if (name.empty()) return;
    const auto value = variables_.expand(name);
    const bool told = value && value->words.size() == 1;
    script_.exports.push_back({begin_, {name + "=" + (told ? value->words.front() : "$" + name)}});
  }

  // ". FILE": its text as if it stood here.
  void take_in(const std::string& named) {
    const auto path = path_of(named);
    const bool may = sources_ != nullptr && sources_->left > 0 && depth_ < kDeepestTakenIn;
    const auto text = path && may ? sources_->text(*path) : std::nullopt;
    if (!text || text->size() > kMostTakenIn) return;
    --sources_->left;
    ScriptReader inside(*text, *path, false, variables_, depth_ + 1);
    inside.take_from(sources_);
    inside.branches_ = branches_;
    inside.bytes_ = bytes_;
    auto read = inside.read();
    bytes_ = inside.bytes_;
    if (!read.ok()) return;
    variables_ = std::move(inside.variables_);
    for (const auto part :
         {&LaunchScript::commands, &LaunchScript::documents, &LaunchScript::values, &LaunchScript::exports}) {
      for (ScriptCommand& one : (*read).*part) (script_.*part).push_back({begin_, std::move(one.words)});
    }
  }

  // "`pwd`/conf.sh", "$(dirname "$0")/conf.sh", "$HERE/conf.sh": what cannot be told in front is the script's folder.
  static std::optional<std::string> path_of(std::string_view word) {
    std::size_t front = 0;
    if (word.starts_with('`')) front = std::min(word.find('`', 1), word.size() - 1) + 1;
    if (word.starts_with('$')) {
      const std::string_view rest = word.substr(1);
      front = 1 + (rest.starts_with('(')   ? balanced(rest, '(', ')')
                   : rest.starts_with('{') ? balanced(rest, '{', '}')
                                           : name_length(rest));
    }
    word.remove_prefix(front);
    if (front > 0 && !word.starts_with('/')) return std::nullopt;
    if (front > 0) word.remove_prefix(1);
    const bool told = !word.empty() && word.find_first_of("$`*?[~") == std::string_view::npos;
    return told ? std::optional(std::string(word)) : std::nullopt;
  }

  void end_command() {
    end_word();
    passes_over_ = false;
    if (lists_words()) {
      if (!words_.empty()) script_.commands.push_back({begin_, std::exchange(words_, {})});
      return;
    }
    branches_.take_keywords(words_);
    branches_.judge(words_);
    if (branches_.passed_over()) words_.clear();
    if (!words_.empty() && words_.front() == "for") {
      if (words_.size() > 1) variables_.forget(words_[1]);
      words_.clear();
    }
    const bool declared = !words_.empty() && declares(words_.front());
    const bool assigns =
        std::ranges::all_of(words_, [](const std::string& word) { return assignment_length(word) > 0; });
    if (declared || assigns) {
      const bool exported = declared && words_.front() == "export";
      for (const std::string& word : words_) {
        if (const std::size_t length = assignment_length(word); length > 0) set(word, {word.substr(length)}, false);
        if (exported && word != words_.front()) export_variable(word);
      }
    } else if (words_.front() == "eval") {
      words_.erase(words_.begin());
      std::vector<std::string> words = all_blank_parted(words_);
      if (!words.empty()) script_.commands.push_back({begin_, std::move(words)});
    } else if (is_one_of(words_.front(), {".", "source"}) && words_.size() > 1) {
      take_in(words_[1]);
    } else {
      script_.commands.push_back({begin_, words_});
    }
    words_.clear();
  }

  std::string_view text_;
  std::string source_;
  bool listed_;
  ShellVariables variables_;
  int depth_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1;
  std::int64_t begin_ = 1;
  std::int64_t quote_line_ = 0;
  char quote_ = 0;
  std::vector<std::string> words_;  // of the command under way
  std::string word_;
  bool open_ = false;         // a word has begun, perhaps an empty one in quotes
  bool passes_over_ = false;  // the next word is where output goes
  bool nothing_ = false;      // what stood in the word that is open is none: "$@"
  bool in_array_ = false;
  std::string array_;
  std::vector<std::string> outer_;  // words before NAME=(
  std::vector<Document> documents_;
  ShellBranches branches_;
  Sources* sources_ = nullptr;
  std::size_t bytes_ = 0;
  LaunchScript script_;
};

bool has_option(const std::vector<std::string>& words, std::string_view option) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    return word == option || (word.starts_with(option) && word[option.size()] == '=');
  });
}

// All that consist of options, one after another. Before the first one there may be a variable that holds more of them.
std::vector<std::string> options_of(const std::vector<ScriptCommand>& commands) {
  std::vector<std::string> all;
  for (const ScriptCommand& one : commands) {
    auto first = one.words.begin();
    while (first != one.words.end() && first->starts_with('$')) ++first;
    if (first != one.words.end() && first->starts_with('-')) all.insert(all.end(), first, one.words.end());
  }
  return all;
}

std::string dashed(std::string_view name) {
  std::string text(name);
  std::ranges::replace(text, '_', '-');
  return text;
}

}  // namespace

Result<LaunchScript> read_script(std::string_view text, std::string_view source, const SourcedText& sourced) {
  ScriptReader reader(text, std::string(source), false);
  Sources sources{sourced};
  if (sourced) reader.take_from(&sources);
  return reader.read();
}

Result<std::vector<std::string>> shell_words(std::string_view text, std::string_view source) {
  TRIMTAB_TRY(LaunchScript script, ScriptReader(text, std::string(source), true).read());
  return script.commands.empty() ? std::vector<std::string>{} : std::move(script.commands.front().words);
}

Result<LaunchWords> launch_words(std::string_view text, std::string_view source, std::string_view option,
                                 const SourcedText& sourced) {
  std::vector<std::string> in_yaml;
  if (has_yaml_options(text)) {
    TRIMTAB_TRY(in_yaml, yaml_options(text, source));
    if (has_option(in_yaml, option)) return LaunchWords{std::move(in_yaml), false};
  }
  TRIMTAB_TRY(const LaunchScript script, read_script(text, source, sourced));
  // A file of options: its lines go on without backslashes.
  if (!script.commands.empty() && script.commands.front().words.front().starts_with('-')) {
    TRIMTAB_TRY(std::vector<std::string> words, shell_words(text, source));
    if (has_option(words, option)) return LaunchWords{std::move(words), false};
  }
  for (auto command = script.commands.rbegin(); command != script.commands.rend(); ++command) {
    if (!command->words.front().starts_with('-') && has_option(command->words, option))
      return LaunchWords{command->words, true};
  }
  for (const auto* commands : {&script.commands, &script.documents, &script.values}) {
    std::vector<std::string> words = options_of(*commands);
    if (has_option(words, option)) return LaunchWords{std::move(words), false};
  }
  return bad_input(std::string(source) + ": expected " + std::string(option) +
                   " in a command or a list of options, found none" + reason_for_none(script, in_yaml, text, option) +
                   "; give the options behind --");
}

std::optional<std::string> option_value(const std::vector<std::string>& words, std::string_view name) {
  const std::string wanted = "--" + dashed(name);
  std::optional<std::string> value;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (dashed(words[i].substr(0, equals)) != wanted) continue;
    const bool next = i + 1 < words.size() && !words[i + 1].starts_with("--");
    value = equals != std::string::npos ? words[i].substr(equals + 1) : next ? words[i + 1] : "";
  }
  return value;
}

}  // namespace trimtab
