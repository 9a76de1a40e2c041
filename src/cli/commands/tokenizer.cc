// favor tokenizer train | encode | decode: text as pieces of words.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <optional>

#include "cli/command.h"
#include "cli/files.h"
#include "core/error_text.h"
#include "core/json.h"
#include "core/notice.h"
#include "core/utf8.h"
#include "data/input_files.h"
#include "data/sentencepiece.h"
#include "data/text_file.h"
#include "io/byte_stream.h"

namespace favor::cli {
namespace {

struct Arguments {
  std::string data, out, model;
  std::optional<std::string> text, ids;
  int64_t vocab = 8000;
  bool json = false;
};

void Print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void CheckOneInput(const Arguments& a, bool given, std::string_view option) {
  if (given == a.data.empty()) return;
  Throw(ErrorCode::kInvalidOption, "tokenizer", "given {} --data {} {}, expected one of them",
        given ? "both" : "neither", given ? "and" : "nor", option);
}

void Train(const Arguments& a) {
  CheckFiles("tokenizer", {a.out}, {a.data});
  const data::SentencePieceResult result =
      data::TrainSentencePiece({.source = a.data, .vocab = a.vocab, .out = a.out});
  if (result.pieces < a.vocab)
    Warn("tokenizer", "requested {} pieces, the text gives {}", a.vocab, result.pieces);
  const double bytes_per_token =
      static_cast<double>(result.bytes) / static_cast<double>(result.summary.tokens);
  if (a.json) {
    PrintJson({{"out", a.out},
               {"pieces", result.pieces},
               {"bytes", result.bytes},
               {"tokens", result.summary.tokens},
               {"words", result.summary.words},
               {"tokens_per_word", result.summary.TokensPerWord()},
               {"bytes_per_token", bytes_per_token}});
    return;
  }
  fmt::print(
      "{}: {} pieces; {} bytes of text are {} tokens: {:.3f} tokens per word, {:.3f} bytes per "
      "token\n",
      Printable(a.out), result.pieces, result.bytes, result.summary.tokens,
      result.summary.TokensPerWord(), bytes_per_token);
}

void Encode(const Arguments& a) {
  CheckOneInput(a, a.text.has_value(), "--text");
  const auto vocabulary = data::OpenSentencePiece(a.model);
  std::string line;
  bool first = true;
  const auto print = [&](const std::vector<int32_t>& tokens) {
    line.clear();
    for (const int32_t token : tokens) {
      if (!first) line += ' ';
      line += std::to_string(token);
      first = false;
    }
    Print(line);
  };
  if (a.text) {
    print(vocabulary->Encode(*a.text, "--text"));
  } else {
    const auto file = data::InputFiles(a.data).Plain();
    const auto size = static_cast<int64_t>(file->Size().value_or(0));
    data::ForEachRun(*file, 0, size, [&](std::string_view run, int64_t place) {
      CheckUtf8(run, a.data, place);
      print(vocabulary->Encode(run, a.data));
    });
  }
  Print("\n");
}

// Reads numbers separated by white space from text that may come in pieces.
class TokenReader {
 public:
  TokenReader(const Vocabulary& vocabulary, std::string who)
      : vocabulary_(vocabulary), who_(std::move(who)) {}

  std::vector<int32_t> Add(std::string_view text) {
    std::vector<int32_t> tokens;
    for (const char c : text) {
      const bool space = c == ' ' || (c >= '\t' && c <= '\r');
      if (!space) {
        number_ += c;
        if (number_.size() > 10) Finish(tokens);
      } else if (!number_.empty()) {
        Finish(tokens);
      }
    }
    return tokens;
  }
  std::vector<int32_t> Rest() { return Add(" "); }

 private:
  void Finish(std::vector<int32_t>& tokens) {
    int32_t token = -1;
    const char* end = number_.data() + number_.size();
    const auto [stop, error] = std::from_chars(number_.data(), end, token);
    ++count_;
    if (error != std::errc() || stop != end || token < 0 || token >= vocabulary_.size()) {
      Throw(ErrorCode::kInvalidData, Printable(who_),
            "token {}: given '{}', expected a number from 0 to {}", count_, Printable(number_),
            vocabulary_.size() - 1);
    }
    number_.clear();
    tokens.push_back(token);
  }

  const Vocabulary& vocabulary_;
  std::string who_, number_;
  int64_t count_ = 0;
};

void Decode(const Arguments& a) {
  CheckOneInput(a, a.ids.has_value(), "--ids");
  const auto vocabulary = data::OpenSentencePiece(a.model);
  TokenReader reader(*vocabulary, a.ids ? "--ids" : a.data);
  std::vector<int32_t> tokens;
  const auto add = [&](const std::vector<int32_t>& more) {
    tokens.insert(tokens.end(), more.begin(), more.end());
  };
  if (a.ids) {
    add(reader.Add(*a.ids));
  } else {
    io::ByteStream stream(a.data);
    for (std::string_view piece = stream.Next(); !piece.empty(); piece = stream.Next())
      add(reader.Add(piece));
  }
  add(reader.Rest());
  Print(vocabulary->Decode(tokens));
}

void DeclareTrain(Options& options, Arguments& a) {
  options
      .Path("--data", "FILE", a.data,
            "Text in UTF-8, also as .gz; if larger than 16 MiB, only parts spread over it are "
            "used")
      .Required();
  options.Integer("--vocab", {258, 1'000'000}, a.vocab,
                  "Pieces, 256 bytes among them; fewer (with a warning) if the text has no more");
  options.Path("--out", "M.model", a.out, "Where the model goes").Required();
  options.Flag("--json", a.json, "Print JSON");
}

void DeclareEncode(Options& options, Arguments& a) {
  options.Path("--model", "M.model", a.model, "A SentencePiece model").Required();
  options.Path("--data", "FILE", a.data, "Text in UTF-8, also as .gz");
  options.Text("--text", a.text, "The text itself");
}

void DeclareDecode(Options& options, Arguments& a) {
  options.Path("--model", "M.model", a.model, "A SentencePiece model").Required();
  options.Path("--data", "FILE", a.data, "A file with tokens");
  options.Text("--ids", a.ids, "Tokens with spaces between them").Placeholder("IDS");
}

}  // namespace

Command TokenizerCommand() {
  return {
      .name = "tokenizer",
      .summary = "Pieces of words: learn them from text, encode and decode",
      .example = "favor tokenizer train --data text.txt --vocab 8000 --out text.model",
      .parts = {
          Command{.name = "train",
                  .summary = "Learn a SentencePiece model that reproduces its text exactly",
                  .example = "favor tokenizer train --data text.txt --vocab 8000 --out text.model",
                  .setup = Setup(DeclareTrain, Train)},
          Command{.name = "encode",
                  .summary = "Print the tokens of a text",
                  .example = "favor tokenizer encode --model text.model --text \"To be, or not\"",
                  .setup = Setup(DeclareEncode, Encode)},
          Command{.name = "decode",
                  .summary = "Write the text of tokens, and nothing after it",
                  .example = "favor tokenizer decode --model text.model --ids \"310 5 77\"",
                  .setup = Setup(DeclareDecode, Decode)}}};
}

}  // namespace favor::cli
