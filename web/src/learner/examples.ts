// Sentences to try. They stand in English in every language: their words are those that have
// vectors.

/** The notes' own. */
export const NOTES = "The cat sat";

/** One word in two sentences. */
export const BANK = ["She sat on the bank of the river", "She put the money in the bank"] as const;
export const IT = [
  "The animal did not cross the street because it was too tired",
  "The animal did not cross the street because it was too wide",
] as const;

export const EXAMPLES: readonly string[] = [
  NOTES,
  ...BANK,
  ...IT,
  "The cat chased the mouse because it was hungry",
];

/** To be gone on with; with the features and the heads made by hand, the likeliest words of these
 * are not all of one kind. */
export const BEGINNINGS = [
  "She put the money in the",
  "The thief stole the",
  "The duck swam",
] as const;

/** A sentence of another language, whose words are given the features of their meaning. */
export const GERMAN = "Die Katze saß auf der Matte";
