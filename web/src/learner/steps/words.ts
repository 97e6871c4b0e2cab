/** What a step is called, why there is one, and a question to think about before looking. */
export interface StepWords {
  readonly name: string;
  readonly title: string;
  /** At most 60 words. */
  readonly why: string;
  readonly question: string;
  readonly answer: string;
}

export const WORDS: readonly StepWords[] = [
  {
    name: "Embedding",
    title: "Words become vectors",
    why:
      "Each word is looked up as one fixed vector, the same in every sentence. What enters the " +
      "layer is word embedding plus position: attention by itself does not see order. Without " +
      "positions, shuffling the words only shuffles the rows of the result.",
    question:
      "“bank” stands in two sentences, once of a river, once of money. How do its vectors differ?",
    answer:
      "Not at all, apart from the position. The embedding is the same; telling the two apart is " +
      "what the next steps are for.",
  },
  {
    name: "Q, K, V",
    title: "Query, key and value",
    why:
      "Three learned views of every token: the query is what it asks, the key what it is found " +
      "by, the value what it gives. Each is one matrix product with a projection that training " +
      "adjusts. Keys and values are made of all tokens, oneself included.",
    question: "w_v gets two more columns. What changes: the scores, the weights, or the output?",
    answer:
      "Only the output: it grows two columns wider. Scores and weights are made of queries and " +
      "keys; the width of w_v decides the width of the output, whatever d_k is.",
  },
  {
    name: "Scores",
    title: "Every query meets every key",
    why:
      "A score is a dot product: the two lengths times the cosine of the angle between them. It " +
      "is large where query and key are long and point the same way, 0 at a right angle, negative " +
      "where they point apart.",
    question: "Two arrows point the same way. Must their score be the largest of the row?",
    answer:
      "No. A longer key at a small angle can beat a shorter one at angle 0: the score grows with " +
      "the length too.",
  },
  {
    name: "Scale",
    title: "Divide by √d_k",
    why:
      "A dot product sums d_k terms, so scores spread like √d_k. Undivided, a large d_k drives " +
      "softmax to all or nothing: most rows then learn almost nothing, while rare near-ties get " +
      "very large gradients. Dividing by √d_k keeps the spread the same at every width.",
    question: "Why √d_k and not d_k?",
    answer:
      "The variance of a sum of d_k independent terms is d_k times that of one, so its deviation is " +
      "√d_k times as large. Dividing by d_k would flatten wide heads to an even average.",
  },
  {
    name: "Softmax",
    title: "Scores become weights",
    why:
      "Softmax turns a row of scores into shares that sum to 1. It runs over the tokens, never " +
      "over the dimensions. Differences count, not sizes: the same number added to all scores of " +
      "a row changes nothing. A causal mask hides later tokens before the shares are taken.",
    question: "Which scores give a row of equal weights?",
    answer:
      "Any row of equal scores, however large: e to the same power is the same share. The row is " +
      "then as undecided as it can be, and its entropy is the logarithm of the number of keys.",
  },
  {
    name: "Weighted sum",
    title: "The values, mixed by the weights",
    why:
      "The weights say where to look, the values what is found there. The sum is the token with " +
      "its context in it. A weight tells where a row looked, not why a model answers; to find " +
      "that out, take the key away and compare.",
    question: "All values lie between 0 and 1. Can a number of the output be 1.27?",
    answer:
      "No. The weights are shares that sum to 1, so each number of the output lies between the " +
      "smallest and the largest value of its column.",
  },
  {
    name: "Heads",
    title: "Several heads side by side",
    why:
      "One row of weights can look in one way at a time. Several heads, each narrower, look in " +
      "several ways for about the same number of parameters. Their outputs are put side by side, " +
      "and w_o mixes them into one vector of the input's width.",
    question: "Twice as many heads, each half as wide: how many more parameters are that?",
    answer:
      "None. Width × (heads · d_k) stays the same for w_q and w_k, and likewise for w_v and w_o.",
  },
  {
    name: "A real head",
    title: "The same steps in a trained model",
    why:
      "The same arithmetic, with projections that training found. The queries and keys are wider " +
      "than on the pages before, and position usually enters by rotating them. Everything else is " +
      "what you have just computed.",
    question: "Many heads of trained models put most weight on the first token. Is it important?",
    answer:
      "Rarely. The shares must sum to 1, so a head with nothing to look for needs a place to put " +
      "them; the first token often becomes that place, a sink.",
  },
  {
    name: "The next layer",
    title: "The rest of the block",
    why:
      "Attention adds to what was there, it does not replace it; the norm evens sizes. Attention " +
      "carries between tokens, the MLP then works on each token alone. What leaves is the hidden " +
      "state, which the next block receives as its X.",
    question: "Which of these parts lets one token learn from another?",
    answer: "Only attention. Residual, norm and MLP treat every row by itself.",
  },
];
