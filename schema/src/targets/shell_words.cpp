#include "schema/megatron_model.hpp"

namespace trimtab {

namespace {

bool is_blank(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\n' || letter == '\r';
}

}  // namespace

Result<std::vector<std::string>> shell_words(std::string_view text, std::string_view source) {
  std::vector<std::string> words;
  std::string word;
  bool open = false;  // a word has begun, perhaps an empty one in quotes
  char quote = 0;
  std::int64_t line = 1;
  std::int64_t quote_line = 0;
  const auto end_word = [&] {
    if (open) words.push_back(std::move(word));
    word.clear();
    open = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    line += letter == '\n' ? 1 : 0;
    if (letter == '\\' && quote != '\'' && i + 1 < text.size()) {
      if (text[++i] == '\n') {
        ++line;
        continue;
      }
      word.push_back(text[i]);
      open = true;
    } else if (quote != 0) {
      if (letter == quote) {
        quote = 0;
      } else {
        word.push_back(letter);
      }
    } else if (letter == '"' || letter == '\'') {
      quote = letter;
      quote_line = line;
      open = true;
    } else if (is_blank(letter)) {
      end_word();
    } else if (letter == '#' && !open) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else {
      word.push_back(letter);
      open = true;
    }
  }
  if (quote != 0) {
    return bad_input(std::string(source) + ":" + std::to_string(quote_line) + ": the quote " + quote +
                     " that begins here has no end");
  }
  end_word();
  return words;
}

}  // namespace trimtab
